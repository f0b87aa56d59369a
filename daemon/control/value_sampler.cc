// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/value_sampler.h"

#include <algorithm>
#include <utility>

#include "daemon/util/clock.h"
#include "daemon/values/read_values.h"
#include "daemon/values/sample_of_published.h"
#include "daemon/values/tick_clock.h"

namespace memprofd {
namespace {

// Time limit for reading one target. If its collector leaves less time, only some of its values are
// read.
constexpr std::chrono::milliseconds kPatience{200};

std::chrono::nanoseconds cpu_time_of_thread() {
  return std::chrono::nanoseconds(clock_ns(CLOCK_THREAD_CPUTIME_ID));
}

}  // namespace

ValueSampler::ValueSampler(std::function<std::vector<PublishingTarget>()> list)
    : list_(std::move(list)), thread_({"values", "to read values", rest_after({})}, [this] {
        const std::chrono::nanoseconds before = cpu_time_of_thread();
        check();
        return rest_after(cpu_time_of_thread() - before);
      }) {}

std::chrono::nanoseconds ValueSampler::rest_after(std::chrono::nanoseconds cpu_time) {
  return std::max<std::chrono::nanoseconds>(kInterval, cpu_time * (100 / kMaxPercent));
}

void ValueSampler::check() {
  for (const PublishingTarget& target : list_()) {
    const std::vector<ModuleField> kept = target.program->kept().all();
    const auto answer = read_values(*target.program,
                                    {.what = ValuesRequest::What::kFields,
                                     .fields = kept,
                                     .in_a_hurry = true,
                                     .observes_only = true,
                                     .patience = kPatience},
                                    [this] { return thread_.is_running(); });
    if (!answer.ok() || !answer->why_no_report.empty()) continue;
    ValueSample sample = sample_of(answer->report, tick_now().ns);
    add_values(answer->values, kept, sample);
    target.keep(std::move(sample));
  }
}

}  // namespace memprofd
