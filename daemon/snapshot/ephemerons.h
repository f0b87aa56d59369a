// SPDX-License-Identifier: Apache-2.0
// Memory that ephemerons keep alive: their data, as long as the ephemeron and all its keys are
// reachable by paths other than through that data (runtime/weak.c, of 4.11 to 5.4). An ephemeron's
// data may lead to another one's key, so this is a fixpoint.
//
//     root -> ephemeron ~> key          does not keep the key alive
//                       -> data         kept alive as long as something else keeps the key
#pragma once

#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// Removes edges to data that is not kept alive from the image. Each block is visited once, and only
// if an ephemeron has both data and keys.
void drop_data_without_keys(HeapImage& image);

}  // namespace memprofd
