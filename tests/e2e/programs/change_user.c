// SPDX-License-Identifier: Apache-2.0
// A library that changes the user of its program at the start, without exec, like a server that
// starts as root. CHANGE_USER holds the real, effective and saved user, then the same for groups.
#define _GNU_SOURCE
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void change_user(void) {
  const char *wanted = getenv("CHANGE_USER");
  unsigned u[3], g[3];
  if (wanted == NULL) return;
  if (sscanf(wanted, "%u %u %u %u %u %u", u, u + 1, u + 2, g, g + 1, g + 2) != 6 ||
      setgroups(0, NULL) != 0 || setresgid(g[0], g[1], g[2]) != 0 || setresuid(u[0], u[1], u[2]) != 0) {
    perror("change_user");
    _exit(1);
  }
}
