// SPDX-License-Identifier: Apache-2.0
// Answers from a heap snapshot, as text for people. Names from programs are made printable.
#pragma once

#include <string>

#include "daemon/ctl/snapshot/snapshot_view.h"
#include "memprof/v1/heaps.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

// The program, the time, and remarks for the reader. Each ends in a newline.
std::string snapshot_head_text(const pb::KeptHeap& snapshot);
std::string census_text(const pb::HeapCensus& census, const HeapDumpView& view);
std::string retained_text(const pb::HeapRetained& retained, const HeapDumpView& view);
std::string why_text(const pb::HeapWhy& why, const HeapDumpView& view);
std::string outside_text(const pb::HeapOutside& outside, const HeapDumpView& view);
std::string diff_text(const pb::HeapDiff& diff, const HeapDumpView& view);
std::string garbage_text(const pb::HeapGarbage& garbage, const HeapDumpView& view);
std::string waste_text(const pb::HeapWaste& waste, const HeapDumpView& view);

}  // namespace memprofd::ctl
