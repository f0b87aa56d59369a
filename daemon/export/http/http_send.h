// SPDX-License-Identifier: Apache-2.0
// A response on its way through libmicrohttpd.
#pragma once

#include "daemon/export/http/http_server.h"

struct MHD_Connection;

namespace memprofd {

// Value of a request header, by its name in any case; null if there is none.
const char* request_header(MHD_Connection* connection, const char* name);

// Compresses a whole body when the client takes that. False: the connection is to be
// closed.
bool send_response(MHD_Connection* connection, HttpResponse response);

}  // namespace memprofd
