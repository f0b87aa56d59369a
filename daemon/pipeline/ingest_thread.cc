// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/ingest_thread.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "daemon/util/guard.h"

namespace memprofd {
namespace {

// The kernel wakes this thread when a ring is a quarter full. Until then records wait for the next
// turn.
constexpr int kBusyWaitMs = 5;
constexpr int kIdleWaitMs = 50;
// Interval while all targets are at rest, in which they are asked whether they have run. The kernel
// reports ends and execs at once.
constexpr int kRestWaitMs = CatchUpPace::kQuiet.count();

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) std::abort();
}

}  // namespace

IngestThread::IngestThread(SnapshotHub& hub, std::size_t history_bytes)
    : hub_(hub),
      history_limit_bytes_(history_bytes),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !wake_) std::abort();
  watch(epoll_.get(), wake_.get());
  hub_.set_wake_up([fd = wake_.get()] { eventfd_write(fd, 1); });
  thread_ = std::thread([this] { loop(); });
}

IngestThread::~IngestThread() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

std::future<void> IngestThread::post(std::function<void()> task) {
  std::packaged_task<void()> packaged(std::move(task));
  std::future<void> done = packaged.get_future();
  {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(packaged));
  }
  eventfd_write(wake_.get(), 1);
  return done;
}

void IngestThread::run_tasks() {
  std::vector<std::packaged_task<void()>> tasks;
  {
    const MutexLock lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

void IngestThread::for_each_target(const std::function<void(TargetPipeline&)>& use) {
  const std::vector<std::shared_ptr<TargetPipeline>> target_pipelines = target_pipelines_;
  for (const auto& target_pipeline : target_pipelines) {
    guarded("to process the events of a program", [&] { use(*target_pipeline); });
    run_tasks();
  }
}

void IngestThread::add(std::shared_ptr<TargetPipeline> target_pipeline) {
  if (!target_pipeline->finished()) watch(epoll_.get(), target_pipeline->ring_epoll_fd());
  target_pipelines_.push_back(std::move(target_pipeline));
}

void IngestThread::finish(TargetPipeline& target_pipeline) {
  if (target_pipeline.finished()) return;
  target_pipeline.catch_up();
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, target_pipeline.ring_epoll_fd(), nullptr);
  target_pipeline.finish();
}

void IngestThread::remove(const TargetPipeline* target_pipeline) {
  std::erase_if(target_pipelines_,
                [&](const auto& candidate) { return candidate.get() == target_pipeline; });
}

bool IngestThread::consume_all() {
  const auto now = std::chrono::steady_clock::now();
  std::uint64_t records = 0;
  for_each_target([&](TargetPipeline& target_pipeline) {
    records += static_cast<std::uint64_t>(target_pipeline.consume());
    if (target_pipeline.catch_up_due(now)) target_pipeline.catch_up();
  });
  records_ += records;
  return records > 0;
}

void IngestThread::keep_history() {
  std::size_t bytes = 0;
  TargetPipeline* largest = nullptr;
  for (const auto& target_pipeline : target_pipelines_) {
    target_pipeline->keep_history();
    bytes += target_pipeline->history_bytes();
    if (largest == nullptr || target_pipeline->history_bytes() > largest->history_bytes()) {
      largest = target_pipeline.get();
    }
  }
  while (bytes > history_limit_bytes_ && largest != nullptr) {
    const std::size_t before = largest->history_bytes();
    if (!largest->shed_history()) break;
    bytes -= before - largest->history_bytes();
  }
  history_bytes_ = bytes;
}

DurationCounts IngestThread::publications() const {
  const MutexLock lock(mutex_);
  return publications_;
}

void IngestThread::publish() {
  const auto began = std::chrono::steady_clock::now();
  run_tasks();  // a caller that asks after posting a task sees its effects
  const bool mark = hub_.take_mark();
  for_each_target([mark](TargetPipeline& target_pipeline) {
    target_pipeline.catch_up_if_run();
    if (mark) target_pipeline.mark_moment();
  });
  std::vector<ProfileSnapshotPtr> snapshots;
  for (const auto& target_pipeline : target_pipelines_)
    snapshots.push_back(target_pipeline->snapshot());
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
  {
    const MutexLock lock(mutex_);
    publications_.add(taken.count());
  }
  hub_.publish(std::move(snapshots));
}

int IngestThread::wait_ms(bool busy) const {
  if (busy) return kBusyWaitMs;
  const auto now = std::chrono::steady_clock::now();
  const bool rest =
      std::all_of(target_pipelines_.begin(), target_pipelines_.end(),
                  [now](const auto& target_pipeline) { return target_pipeline->at_rest(now); });
  return rest ? kRestWaitMs : kIdleWaitMs;
}

void IngestThread::wait(bool busy) {
  epoll_event events[16];
  const int ready = epoll_wait(epoll_.get(), events, 16, wait_ms(busy));
  for (int i = 0; i < ready; ++i) {
    eventfd_t ignored;
    if (events[i].data.fd == wake_.get()) eventfd_read(wake_.get(), &ignored);
  }
}

void IngestThread::loop() {
  ::pthread_setname_np(::pthread_self(), "ingest");
  for (bool last = false; !last;) {
    {
      const MutexLock lock(mutex_);
      last = stop_;
    }
    run_tasks();
    if (last) break;
    bool busy = false;
    guarded("to sum up programs", [&] {
      busy = consume_all();
      keep_history();
      if (hub_.wanted()) publish();
    });
    wait(busy);
  }
}

}  // namespace memprofd
