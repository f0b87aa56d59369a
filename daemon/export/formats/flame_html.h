// SPDX-License-Identifier: Apache-2.0
// The flame graph as one HTML file that needs nothing else: no network, no
// other file. Its parts are in dashboards/web and built into the program.
#pragma once

#include <string>
#include <string_view>

namespace memprofd {

// json_data is one valid JSON object, UTF-8, in the format that
// dashboards/web/src/flame/profile.ts describes. Names in it may hold anything: what could end
// the script element it is put into is escaped here, in a way JSON reads back.
std::string flame_html(std::string_view json_data);

}  // namespace memprofd
