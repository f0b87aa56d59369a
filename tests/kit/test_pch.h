// SPDX-License-Identifier: Apache-2.0
// Precompiled for tests, for speed only: every test still includes what it uses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "daemon/util/pch.h"
