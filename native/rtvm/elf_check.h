// A look at a model library before the dynamic linker gets it, whose own words would be
// "No such file" for another machine's file.
#ifndef RTVM_ELF_CHECK_H_
#define RTVM_ELF_CHECK_H_

#include <string>

namespace rtvm {

// Fails unless `path` is a shared library for the machine that this program is built for.
void CheckLibrary(const std::string& path);

}  // namespace rtvm

#endif  // RTVM_ELF_CHECK_H_
