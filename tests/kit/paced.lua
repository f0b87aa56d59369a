-- SPDX-License-Identifier: Apache-2.0
-- wrk's script for a load that leaves a processor to others: a connection rests so many ms between requests.
function delay()
  return 10
end
