// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/own_values.h"

#include <utility>

#include "daemon/export/api/values_service.h"
#include "daemon/run/own_process.h"
#include "daemon/snapshot/types/guarded_types.h"
#include "daemon/symbolize/ocaml_symbolizer.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

absl::StatusOr<OwnValues> OwnValues::open(int pid) {
  ASSIGN_OR_RETURN(Target target,
                   discover_own_process(pid, {.what = "read the memory of",
                                              .otherwise = "ask a memprofd that runs as root"}));
  std::shared_ptr<Symbolizer> symbolizer = symbolizer_of(target);
  return OwnValues(std::make_unique<ValueProgram>(target, std::move(symbolizer)));
}

absl::StatusOr<::memprof::v1::ListValuesResponse> OwnValues::list(
    const ::memprof::v1::ListValuesRequest& request, const std::function<bool()>& wanted) {
  const GuardedTypes types;
  return answer_values(request, [&](ValuesRequest asked) {
    asked.types = &types;
    return read_values(*program_, asked, wanted);
  });
}

}  // namespace memprofd
