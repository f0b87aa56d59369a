// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/threads/start_thread.h"

#include <cstring>
#include <latch>
#include <vector>

#include "absl/strings/str_cat.h"

namespace memprofd {

absl::Status no_thread(int error, std::string_view purpose) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "cannot start a thread ", absl::string_view(purpose.data(), purpose.size()), ": ",
      std::strerror(error), "; raise the limit of memprofd's threads (TasksMax=, ulimit -u)"));
}

absl::Status check_free_threads(int number, std::string_view purpose) {
  std::latch over(1);
  std::vector<std::thread> threads;
  absl::Status status;
  while (status.ok() && static_cast<int>(threads.size()) < number) {
    auto thread = start_thread(purpose, [&over] { over.wait(); });
    status = thread.status();
    if (thread.ok()) threads.push_back(*std::move(thread));
  }
  over.count_down();
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace memprofd
