// SPDX-License-Identifier: Apache-2.0
// Reads published values, except values of the heap, which need a clock to be read.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "daemon/values/publication.h"
#include "daemon/values/read_values.h"
#include "daemon/values/value_program.h"

namespace memprofd {

// Empty if the program publishes no values. Returns the errors of read_publication();
// kInvalidArgument: an invalid pattern.
absl::StatusOr<Publication> read_published_values(const ValueProgram& program,
                                                  const ValueProgram::Layout& found,
                                                  const ValuesRequest& request,
                                                  const std::function<bool()>& wanted);

// Address at which the registry keeps the root of a value.
std::uint64_t root_address(const ValueProgram& program, const PublishedValue& value);
// Sets the value; if it is published as a reference, to the contents of that reference.
void set_value(PublishedValue& reported, Value value);

}  // namespace memprofd
