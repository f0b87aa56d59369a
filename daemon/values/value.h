// SPDX-License-Identifier: Apache-2.0
// A value of an OCaml program as it is seen from outside: what its representation says. Types are
// not known: constant constructors, characters and booleans are integers, records are blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace memprofd {

enum class ValueKind {
  kInteger,
  kFloat,
  kString,      // or bytes
  kFloatArray,  // or a record of floats
  kFunction,
  kLazy,      // not forced yet
  kCustom,    // int32, int64, nativeint, Bigarray, what C code keeps
  kAbstract,  // of C code, without a sign what it is
  kObject,
  kReference,  // or another mutable block of one field
  kList,       // of two elements or more
  kTable,      // Hashtbl
  kQueue,      // that is not empty
  kTree,       // Map or Set, of two elements or more
  kBlock,      // record, tuple, array, constructor with arguments
  kUnread,     // see Value::why
};

enum class WhyUnread {
  kNone,
  kMoving,     // the collector worked at each try
  kNotMapped,  // no block is where the value says
  kDeep,       // it is within others: look at those
  kChanging,   // the program changed it in place at each try
  kNotYet,     // the function that gives it has not been evaluated
  kRaised,     // it has raised an exception
  kNoClock,    // its runtime is not understood
};

struct Value {
  ValueKind kind = ValueKind::kUnread;
  WhyUnread why = WhyUnread::kNone;
  std::int64_t integer = 0;
  double number = 0;
  // Bytes of a string; elements, bindings, fields.
  std::uint64_t size = 0;
  bool is_longer = false;  // a list has more elements than were counted
  std::uint32_t tag = 0;
  // Function, identifier of a custom block; a string's contents where they were asked for.
  std::string text;
  bool is_changing = false;  // while it was read: its words may be of two moments
  bool is_cut = false;       // text or fields have not all
  // Tables have these.
  std::uint64_t buckets = 0;
  std::uint64_t empty_buckets = 0;
  std::uint64_t longest_chain = 0;
  bool chains_counted = false;  // not of one that is too large
  // Buckets by their number of bindings, from 0 on; the last one kCountedChains has those of more.
  std::vector<std::uint64_t> chains;
  std::vector<Value> fields;  // the first ones

  static constexpr std::size_t kCountedChains = 16;

  // Bit by bit: of numbers that are none, too.
  bool same_as(const Value& other) const;
};

}  // namespace memprofd
