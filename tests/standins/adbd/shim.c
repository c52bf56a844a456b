/* Preloaded in the emulated phone: programs of the phone's machine are run by qemu, as the kernel of a
   real phone would run them; the shell and its tools are this machine's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*execve_t)(const char *, char *const[], char *const[]);
extern char **environ;

static int machine_of(const char *path) {
  unsigned char head[20];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t got = read(fd, head, sizeof head);
  close(fd);
  if (got != sizeof head || memcmp(head, "\177ELF", 4) != 0) return -1;
  return head[18] | head[19] << 8;
}

int execve(const char *path, char *const argv[], char *const envp[]) {
  execve_t real = (execve_t)dlsym(RTLD_NEXT, "execve");
  int machine = machine_of(path);
  if (machine < 0 || machine == HOST_MACHINE) return real(path, argv, envp);
  if (access(path, X_OK) != 0) return -1;
  if (machine != PHONE_MACHINE) return errno = ENOEXEC, -1;
  size_t count = 0;
  while (argv[count]) count++;
  const char **words = calloc(count + 8, sizeof *words);
  size_t n = 0;
  words[n++] = "/apex/qemu";
  words[n++] = "-L";
  words[n++] = "/apex/sysroot";
  words[n++] = "-U";
  words[n++] = "LD_PRELOAD";
  words[n++] = path;
  for (size_t i = 1; i < count; i++) words[n++] = argv[i];
  return real(words[0], (char *const *)words, envp);
}

int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }

int execvpe(const char *file, char *const argv[], char *const envp[]) {
  if (strchr(file, '/')) return execve(file, argv, envp);
  const char *path = getenv("PATH");
  char full[4096];
  errno = ENOENT;
  for (const char *at = path ? path : "/usr/bin"; *at;) {
    size_t size = strcspn(at, ":");
    snprintf(full, sizeof full, "%.*s/%s", (int)size, at, file);
    if (access(full, X_OK) == 0) return execve(full, argv, envp);
    at += size + (at[size] == ':');
  }
  return -1;
}

int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }
