// SPDX-License-Identifier: Apache-2.0
// A value of an OCaml program by its representation. Types are unknown: constant constructors,
// characters and booleans are integers, records are blocks.
#pragma once

#include <cstdint>
#include <memory>
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
  kCustom,    // int32, int64, nativeint, Bigarray, data of C code
  kAbstract,  // allocated by C code, of unknown meaning
  kObject,
  kReference,  // or another mutable block of one field
  kList,       // of two elements or more
  kTable,      // Hashtbl
  kQueue,      // that is not empty
  kTree,       // Map or Set, of two elements or more
  kBlock,      // record, tuple, array, constructor with arguments
  kTag,        // values that the program has marked
  kUnread,     // see Value::why
};

enum class WhyUnread {
  kNone,
  kMoving,     // the collector worked at each try
  kNotMapped,  // there is no block at the value's address
  kDeep,       // nested too deeply: read it by itself
  kChanging,   // the program changed it in place at each try
  kNotYet,     // the function that gives it has not been evaluated
  kRaised,     // it has raised an exception
  kNoClock,    // its runtime is not understood
  kOff,        // a viewer has switched it off
};

struct ValueGraph;

struct Value {
  ValueKind kind = ValueKind::kUnread;
  WhyUnread why = WhyUnread::kNone;
  std::int64_t integer = 0;
  double number = 0;
  // Bytes of a string; elements, bindings, fields; for a tag, values that are alive or not
  // collected yet.
  std::uint64_t size = 0;
  bool is_longer = false;  // a list has more elements than were counted, a tag more values
  // A tag has these: the memory that its values hold, headers included, each block once.
  std::uint64_t bytes = 0;
  bool is_more_memory = false;  // more than was read
  std::uint32_t tag = 0;
  // Function, identifier of a custom block; a string's contents if requested.
  std::string text;
  bool is_changing = false;  // while it was read: its words may be of two moments
  bool is_cut = false;       // text or fields are incomplete
  // Tables have these.
  std::uint64_t buckets = 0;
  std::uint64_t empty_buckets = 0;
  std::uint64_t longest_chain = 0;
  bool chains_counted = false;  // false for a table that is too large
  // Number of buckets by their number of bindings, from 0 on; entry kCountedChains, the last one,
  // counts buckets with that number or more.
  std::vector<std::uint64_t> chains;
  std::vector<Value> fields;  // the first ones
  // The graph, if requested; otherwise null.
  std::shared_ptr<const ValueGraph> graph;

  static constexpr std::size_t kCountedChains = 16;

  // Compares bit by bit, so that NaNs are equal, too.
  bool same_as(const Value& other) const;
};

// A field of a block: another block, by its number, or a value that is no block.
struct GraphField {
  std::uint32_t node = 0;  // from 1 on; 0: see value
  Value value;
};

struct GraphNode {
  Value value;  // without its fields
  std::vector<GraphField> fields;
  std::uint32_t references = 0;  // number of fields of all nodes that point to it
};

// The first node is the value's own.
struct ValueGraph {
  std::vector<GraphNode> nodes;
  bool is_cut = false;  // there are more

  bool same_as(const ValueGraph& other) const;
};

}  // namespace memprofd
