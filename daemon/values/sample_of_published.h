// SPDX-License-Identifier: Apache-2.0
// Converts published values to the samples that history keeps.
#pragma once

#include <cstdint>

#include <vector>

#include "daemon/history/value_sample.h"
#include "daemon/values/publication.h"
#include "daemon/values/read_values.h"

namespace memprofd {

// Adds the numbers of kept module values, under the names under which they are kept.
void add_values(const std::vector<NamedValue>& values, const std::vector<ModuleField>& kept,
                ValueSample& sample);

// now_ns: CLOCK_MONOTONIC of the reading, as are the sample's times. Values have no number if they
// are off, could not be read, or their function is not evaluated any more.
ValueSample sample_of(const Publication& report, std::uint64_t now_ns);

}  // namespace memprofd
