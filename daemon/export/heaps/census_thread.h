// SPDX-License-Identifier: Apache-2.0
// Has each snapshot that is kept counted once, soon after it is there: metrics and questions about
// all of them read no file. The latest first; what cannot be counted is let be.
#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "daemon/export/api/inner_heap.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

class CensusThread {
 public:
  // Runs if there is a directory. heaps outlives it.
  explicit CensusThread(InnerHeaps& heaps,
                        std::chrono::milliseconds interval = std::chrono::seconds(2));
  CensusThread(const CensusThread&) = delete;
  CensusThread& operator=(const CensusThread&) = delete;
  ~CensusThread();

  // No further one is counted.
  void stop() { stop_.stop(); }

 private:
  void run();
  void count_snapshots();
  bool count_all();

  InnerHeaps& heaps_;
  const std::chrono::milliseconds interval_;  // between checks of the directory
  // Files that cannot be counted, and when the directory was done; thread_ alone has them.
  std::set<std::string> let_be_;
  std::filesystem::file_time_type done_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace memprofd
