// SPDX-License-Identifier: Apache-2.0
// Converts published values to the samples that history keeps.
#pragma once

#include <cstdint>

#include <vector>

#include "daemon/history/value_sample.h"
#include "daemon/values/read_values.h"
#include "daemon/values/report.h"

namespace memprofd {

// Numbers of values of modules that are kept, under the names by which they are.
void add_values(const std::vector<NamedValue>& values, const std::vector<ModuleField>& kept,
                ValueSample& sample);

// now_ns: CLOCK_MONOTONIC when it was read, as are the sample's times. Neither what is switched off
// has a number, nor what could not be read, nor a function that is not evaluated any more.
ValueSample sample_of(const Report& report, std::uint64_t now_ns);

}  // namespace memprofd
