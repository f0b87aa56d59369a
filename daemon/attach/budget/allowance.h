// SPDX-License-Identifier: Apache-2.0
// A share of some time that may be used, with a credit: a burst within the credit changes nothing,
// and usage far above the share empties it in a second or two.
#pragma once

#include <algorithm>
#include <limits>

namespace memprofd {

class Allowance {
 public:
  static constexpr double kAim = 0.7;          // fraction of the share to aim for
  static constexpr double kCreditSeconds = 2;  // maximum credit: this time multiplied by the share

  // share 0: no limit.
  explicit Allowance(double share) : share_(share), credit_(full()) {}

  double share() const { return share_; }
  bool limited() const { return share_ != 0; }
  void refill(double part = 1) { credit_ = part * full(); }
  // Sets the share. Credit saved under another share counts only up to the limit of this share.
  void set_share(double share) {
    const bool was_limited = limited();
    share_ = share;
    credit_ = was_limited ? std::min(credit_, full()) : full();
  }

  // Returns true if the credit covered what was taken in this time.
  bool take(double time, double taken) {
    if (!limited()) return true;
    credit_ = std::min(full(), credit_ + share_ * time - taken);
    return credit_ >= 0;
  }
  void clear_debt() { credit_ = std::max(credit_, 0.0); }
  bool saved() const { return credit_ == full(); }

  // Factor by which the consumption would have to change to fit the share.
  double right_factor(double time, double taken) const {
    const bool any = !limited() || taken <= 0;
    return any ? std::numeric_limits<double>::infinity() : kAim * share_ * time / taken;
  }

 private:
  double full() const { return kCreditSeconds * share_; }

  double share_;
  double credit_;
};

}  // namespace memprofd
