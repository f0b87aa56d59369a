// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/fingerprint.h"

#include <sys/random.h>

namespace memprofd {

absl::StatusOr<Fingerprint::Key> random_key() {
  Fingerprint::Key key;
  if (::getrandom(key.data(), sizeof key, 0) == sizeof key) return key;
  return absl::ErrnoToStatus(errno, "no random number for a key");
}

}  // namespace memprofd
