// Number formats against plain arithmetic, and the statistics; prints what differs and exits 1.

#include "array.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "report.h"

namespace {

int failures = 0;

void Check(bool right, const std::string& what) {
  if (right) return;
  ++failures;
  if (failures <= 20) std::printf("differs: %s\n", what.c_str());
}

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

double HalfValue(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double mantissa = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25));
}

// The nearest half by arithmetic: a whole number of steps, ties to the even one.
double NearestHalf(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double step = std::ldexp(1, std::max(std::ilogb(value), -14) - 10);
  const double nearest = std::nearbyint(value / step) * step;
  return std::fabs(nearest) > 65504 ? std::copysign(INFINITY, value) : nearest;
}

void CheckHalf(uint32_t bits) {
  const double expected = NearestHalf(static_cast<double>(FloatOf(bits)));
  const double found = HalfValue(rtvm::HalfBits(FloatOf(bits)));
  const bool same = std::isnan(expected) ? std::isnan(found)
                                         : found == expected && std::signbit(found) == (bits >> 31 != 0);
  Check(same, "float16 of bits " + std::to_string(bits));
}

void CheckBfloat16(uint32_t bits) {
  rtvm::Array array{rtvm::DType::kFloat32, {1}, std::vector<uint8_t>(4)};
  std::memcpy(array.data.data(), &bits, 4);
  const rtvm::Array back = rtvm::Bfloat16ToFloat32(rtvm::Float32ToBfloat16(array));
  float found;
  std::memcpy(&found, back.data.data(), 4);
  const float value = FloatOf(bits);
  if (std::isnan(value)) return Check(std::isnan(found), "bfloat16 of a NaN");
  // The two neighbours with 8 bits of mantissa; the nearer one is right, the even one at a tie.
  const float low = FloatOf(bits & 0xffff0000U);
  const float high = FloatOf((bits & 0xffff0000U) + 0x10000U);
  const double below = std::fabs(static_cast<double>(value) - static_cast<double>(low));
  // Above the largest number the next step counts as its distance, as rounding to infinity asks.
  const double step =
      std::isinf(high) ? 0 : std::fabs(static_cast<double>(high) - static_cast<double>(value));
  if (std::isinf(high) || std::isinf(value)) return;
  const bool even = ((bits >> 16) & 1U) == 0;
  const float expected = below < step || (below == step && even) ? low : high;
  Check(found == expected, "bfloat16 of bits " + std::to_string(bits));
}

void CheckRandom() {
  const rtvm::Array a = rtvm::RandomArray(rtvm::DType::kFloat32, {1000}, 1);
  const rtvm::Array b = rtvm::RandomArray(rtvm::DType::kFloat32, {1000}, 1);
  const rtvm::Array c = rtvm::RandomArray(rtvm::DType::kFloat32, {1000}, 2);
  Check(a.data == b.data, "the same seed");
  Check(a.data != c.data, "another seed");
  double sum = 0;
  for (size_t i = 0; i < 1000; ++i) {
    float value;
    std::memcpy(&value, a.data.data() + 4 * i, 4);
    Check(value >= -1 && value < 1, "range of random numbers");
    sum += static_cast<double>(value);
  }
  Check(std::fabs(sum / 1000) < 0.1, "mean of random numbers");
  for (const uint8_t digit : rtvm::RandomArray(rtvm::DType::kInt8, {1000}, 3).data) {
    Check(digit < 10, "range of random integers");
  }
}

void CheckSummary() {
  std::vector<double> times;
  for (int i = 100; i >= 1; --i) times.push_back(i);
  const rtvm::Statistics all = rtvm::Summary(times);
  Check(all.min == 1 && all.max == 100 && all.median == 50.5 && all.p95 == 95 && all.mean == 50.5,
        "of 1..100");
  const rtvm::Statistics one = rtvm::Summary({7});
  Check(one.min == 7 && one.median == 7 && one.p95 == 7 && one.max == 7, "of one time");
  const rtvm::Statistics odd = rtvm::Summary({3, 1, 2});
  Check(odd.median == 2 && odd.p95 == 3, "of three times");
}

}  // namespace

int main() {
  // A prime step: all exponents, and low bits of every pattern.
  for (uint64_t bits = 0; bits <= 0xffffffffU; bits += 4093) {
    CheckHalf(static_cast<uint32_t>(bits));
    CheckBfloat16(static_cast<uint32_t>(bits));
  }
  // Every half, exactly between two halves, and one float to either side of that.
  for (uint32_t exponent_and_mantissa = 0x33000000U; exponent_and_mantissa < 0x47800000U;
       exponent_and_mantissa += 0x1000U) {
    for (const uint32_t bits :
         {exponent_and_mantissa - 1, exponent_and_mantissa, exponent_and_mantissa + 1}) {
      CheckHalf(bits);
      CheckHalf(bits | 0x80000000U);
    }
  }
  CheckRandom();
  CheckSummary();
  std::printf("%d differences\n", failures);
  return failures == 0 ? 0 : 1;
}
