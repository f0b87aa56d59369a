// SPDX-License-Identifier: Apache-2.0
// Converts published values to the samples that history keeps.
#pragma once

#include <cstdint>

#include <vector>

#include "daemon/history/value_sample.h"
#include "daemon/values/publication.h"
#include "daemon/values/read_values.h"

namespace memprofd {

// Numbers of values of modules that are kept, under the names by which they are.
void add_values(const std::vector<NamedValue>& values, const std::vector<ModuleField>& kept,
                ValueSample& sample);

// now_ns: CLOCK_MONOTONIC of the reading, as are the sample's times. Values that are off, that
// could not be read, or whose function is not evaluated any more have no number.
ValueSample sample_of(const Publication& report, std::uint64_t now_ns);

}  // namespace memprofd
