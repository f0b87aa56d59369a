// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/probe_removal.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>

namespace memprofd {
namespace {

// Closed once the kernel has closed it.
class SlowLink {
 public:
  SlowLink() = default;
  explicit SlowLink(std::atomic<bool>& done) : done_(&done) {}
  SlowLink(SlowLink&& other) noexcept : done_(std::exchange(other.done_, nullptr)) {}
  SlowLink& operator=(SlowLink&& other) noexcept {
    close();
    done_ = std::exchange(other.done_, nullptr);
    return *this;
  }
  SlowLink(const SlowLink&) = delete;
  SlowLink& operator=(const SlowLink&) = delete;
  ~SlowLink() { close(); }
  explicit operator bool() const { return done_ != nullptr; }

 private:
  void close() {
    if (done_ != nullptr) done_->wait(false);
  }

  std::atomic<bool>* done_ = nullptr;
};

class ProbeRemovalTest : public ::testing::Test {
 protected:
  void TearDown() override {
    let_kernel_end();
    removal_.wait();
  }
  void let_kernel_end() {
    kernel_done_ = true;
    kernel_done_.notify_all();
  }
  void add() {
    SlowLink link(kernel_done_);
    removal_.add(link);
    EXPECT_FALSE(link);
  }

  // Lives as long as the process, because remaining removals refer to it.
  static inline std::atomic<bool> kernel_done_{false};
  ProbeRemoval removal_;
};

// The control thread removes them, and must not wait for any.
TEST_F(ProbeRemovalTest, NotTooManyAreLeft) {
  for (std::size_t i = 0; i < kMaxLeftRemovals; ++i) add();
  ASSERT_TRUE(removal_.leave());
  EXPECT_TRUE(removal_.done());
  add();
  EXPECT_FALSE(removal_.leave());
  EXPECT_FALSE(removal_.done());
  let_kernel_end();
  while (!removal_.leave()) std::this_thread::yield();
}

}  // namespace
}  // namespace memprofd
