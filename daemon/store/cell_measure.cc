#include "daemon/store/cell_measure.h"

#include "daemon/util/estimate.h"

namespace memprofd {
namespace {

double died(const WindowCell& cell, Heap heap) {
  double samples = 0;
  for (const DeathCounts::Entry& death : cell.deaths) {
    if (death.heap() == heap) samples += death.n;
  }
  return samples;
}

}  // namespace

absl::Status check_summable(Measure measure) {
  if (measure != Measure::kLifetime) return absl::OkStatus();
  return absl::InvalidArgumentError("lifetimes have no history; ask for sites in a range instead");
}

double cell_samples(const WindowCell& cell, Measure measure) {
  switch (measure) {
    case Measure::kLive:
    case Measure::kLiveObjects:
      return static_cast<double>(cell.allocated) - cell.forgotten - died(cell, Heap::kMinor) -
             died(cell, Heap::kMajor);
    case Measure::kAllocated:
    case Measure::kAllocatedObjects:
    case Measure::kSamples:
      return cell.allocated;
    case Measure::kPromoted:
      return cell.promoted;
    case Measure::kDiedYoung:
      return died(cell, Heap::kMinor);
    case Measure::kDiedOld:
      return died(cell, Heap::kMajor);
    case Measure::kLifetime:
      break;
  }
  return 0;
}

double sample_weight(const AllocClass& alloc_class, double rate, Measure measure) {
  switch (measure) {
    case Measure::kSamples:
      return 1;
    case Measure::kAllocatedObjects:
    case Measure::kLiveObjects:
      return 1 / (rate * (alloc_class.size.middle_words() + 1));
    default:
      return kBytesPerWord / rate;
  }
}

}  // namespace memprofd
