// Plugins of a target: their names for its symbolizer, their frames for its walks.
// Owned by the control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/attach/attached_target.h"
#include "daemon/discover/plugins.h"
#include "daemon/symbolize/ocaml_symbolizer.h"

namespace memprofd {

class PluginFollower {
 public:
  PluginFollower() = default;
  // Takes what was found of plugins when the target was looked at.
  PluginFollower(Target& target, std::shared_ptr<OcamlSymbolizer> symbolizer);

  // Adds those that were found: to be called before the first session, for its samples to
  // be walked through them.
  void add_found(AttachedTarget& target);
  // Looks for plugins when the program has registered frame tables since the last call,
  // and in the first one: `registered` counts them.
  void follow(std::uint64_t registered, AttachedTarget& target);

 private:
  void add(OcamlCode plugin, AttachedTarget& target);

  PluginFinder finder_;
  std::vector<OcamlCode> found_;  // not yet added
  std::shared_ptr<OcamlSymbolizer> symbolizer_;
  std::optional<std::uint64_t> seen_;  // registrations taken account of
};

}  // namespace memprofd
