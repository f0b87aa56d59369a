// SPDX-License-Identifier: Apache-2.0
// Converts one moment of a target and the counts of its classes to records and back. Input may be
// anything: invalid data becomes nothing.
#pragma once

#include <string>

#include "daemon/history/snapshot.h"
#include "state/state.pb.h"

namespace memprofd {

// Identifies the machine's boot, within which pids and times since boot are comparable. Empty:
// unknown.
std::string boot_id(const std::string& proc_root = "/proc");

// These convert everything except windows and ages.
void put_moment(const ProfileSnapshot& snapshot, state::Moment& out);
void get_moment(const state::Moment& message, ProfileSnapshot& out);

void put_counts(ClassId id, const Counters& counters, state::Counts& out);
Counters get_counts(const state::Counts& message);

void put_callstack(const Callstack& callstack, state::Callstack& out);
Callstack get_callstack(const state::Callstack& message);
void put_class(ClassId id, const AllocClass& alloc_class, state::Class& out);
AllocClass get_class(const state::Class& message);
void put_location(const Location& location, state::Location& out);
Location get_location(const state::Location& message);

}  // namespace memprofd
