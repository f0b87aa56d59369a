// SPDX-License-Identifier: Apache-2.0
// Passes a pipeline's events to the event log. Owned by the ingest thread, like the pipeline.
// Without readers the pipeline has no observer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/history/event_log.h"
#include "daemon/pipeline/pipeline.h"

namespace memprofd {

class EventTap final : public SampleObserver {
 public:
  // Becomes the pipeline's observer while the log is wanted. The pipeline must outlive this.
  EventTap(Pipeline& pipeline, std::shared_ptr<EventLog> log);
  EventTap(const EventTap&) = delete;
  EventTap& operator=(const EventTap&) = delete;
  ~EventTap() override;

  // Starts or stops recording, depending on the log's readers. Called between batches, and from
  // time to time after close(), to free what no one reads.
  void update();
  // Passes the collected events to the log. Call update() before and flush() after each pass over
  // the ring.
  void flush();
  // The target has ended; readers get the remaining events.
  void close();

  const std::shared_ptr<EventLog>& log() const { return log_; }

  void on_event(const SampleEvent& event, double rate) override;
  void on_native_event(const SampleEvent& event) override;
  void on_batch_end() override;

 private:
  void note_losses();
  void put(const SampleEvent& event);
  void note_class(ClassId id);
  std::vector<EventClass> take_classes();

  Pipeline& pipeline_;
  const std::shared_ptr<EventLog> log_;
  bool recording_ = false;
  bool closed_ = false;

  EventLosses lost_;  // losses of the target so far

  // The chunk being collected.
  std::uint64_t first_ = 0;  // number of its first event
  double rate_ = 0;
  EventLosses lost_before_;
  std::vector<SampleEvent> events_;
  std::vector<ClassId> classes_;  // unique
  // Per class: number of the last chunk (chunk_) that contained it.
  std::vector<std::uint64_t> last_chunk_;
  std::uint64_t chunk_ = 1;
};

}  // namespace memprofd
