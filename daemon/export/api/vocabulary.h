// SPDX-License-Identifier: Apache-2.0
// The tables of measures, group keys and formats as a message, for user interfaces.
#pragma once

#include "memprof/v1/profiler.pb.h"

namespace memprofd {

::memprof::v1::Vocabulary vocabulary();

}  // namespace memprofd
