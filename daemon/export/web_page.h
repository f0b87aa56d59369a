// The page at / (dashboards/web, built into the program), and the files it loads. It
// asks the HTTP API for everything it shows and nothing of any other machine.
#pragma once

#include "daemon/export/http_server.h"

namespace memprofd {

void add_web_page(HttpRoutes& routes);

}  // namespace memprofd
