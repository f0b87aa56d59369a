// SPDX-License-Identifier: Apache-2.0
// Counts each stored snapshot once, soon after it appears, so that metrics and questions about all
// of them need not read files. The latest comes first; snapshots that cannot be counted are
// skipped.
#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "daemon/export/heaps/heap_analyser.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

class CensusThread {
 public:
  // Runs if there is a directory. heaps must outlive it.
  explicit CensusThread(HeapAnalyser& heaps,
                        std::chrono::milliseconds interval = std::chrono::seconds(2));
  CensusThread(const CensusThread&) = delete;
  CensusThread& operator=(const CensusThread&) = delete;
  ~CensusThread();

  // Counts no further one.
  void stop() { stop_.stop(); }

 private:
  void run();
  void count_snapshots();
  bool count_all();

  HeapAnalyser& heaps_;
  const std::chrono::milliseconds interval_;  // between checks of the directory
  // Files that cannot be counted, and the time of the directory when it was complete; used by
  // thread_ only.
  std::set<std::string> let_be_;
  std::filesystem::file_time_type done_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace memprofd
