// SPDX-License-Identifier: Apache-2.0
#include "daemon/runtime/runtime_abi.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "daemon/runtime/code_check.h"

namespace memprofd {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// caml_c_call of Debian 12's OCaml 4.13.1.
const std::vector<std::byte> kCall413 =
    bytes_of({0x41, 0x8f, 0x86, 0xd8, 0x00, 0x00, 0x00, 0x49, 0x89, 0xa6, 0xd0, 0x00, 0x00, 0x00,
              0x48, 0x83, 0xec, 0x08, 0x48, 0x81, 0xec, 0x00, 0x10, 0x00, 0x00, 0x48, 0x89, 0x04,
              0x24, 0x48, 0x81, 0xc4, 0x00, 0x10, 0x00, 0x00, 0x4d, 0x89, 0x7e, 0x08, 0xff, 0xe0});

TEST(RuntimeAbi, KnowsTheSupportedVersions) {
  for (const char* version : {"4.13.1", "4.13.0", "4.14.1", "4.14", "4.14.0+flambda"}) {
    const auto abi = runtime_abi_for(version);
    ASSERT_TRUE(abi.ok()) << abi.status();
    EXPECT_EQ(abi->version, version);
    EXPECT_EQ(abi->young_limit, 0u);
    EXPECT_EQ(abi->young_ptr, 8u);
    EXPECT_EQ(abi->young_alloc_end, 56u);
    EXPECT_EQ(abi->bottom_of_stack, 208u);
    EXPECT_EQ(abi->last_return_address, 216u);
    EXPECT_EQ(abi->stats, 296u);
    EXPECT_EQ(abi->heap_chunks, 368u);
    EXPECT_FALSE(abi->one_postponed_queue);
  }
  const auto old = runtime_abi_for("4.12.1"), oldest = runtime_abi_for("4.11.1");
  ASSERT_TRUE(old.ok() && oldest.ok());
  EXPECT_EQ(old->young_limit, 8u);
  EXPECT_EQ(old->young_ptr, 0u);
  EXPECT_EQ(old->bottom_of_stack, 208u);
  EXPECT_FALSE(old->one_postponed_queue);
  EXPECT_EQ(oldest->young_ptr, 0u);
  EXPECT_EQ(oldest->bottom_of_stack, 200u);
  EXPECT_EQ(oldest->last_return_address, 208u);
  EXPECT_EQ(oldest->stats, 288u);
  EXPECT_EQ(oldest->heap_chunks, 352u);
  EXPECT_TRUE(oldest->one_postponed_queue);
}

TEST(RuntimeAbi, KnowsTheVersionsWithDomains) {
  for (const char* version : {"5.3.0", "5.3.1", "5.4.1", "5.5.2"}) {
    const auto abi = runtime_abi_for(version);
    ASSERT_TRUE(abi.ok()) << abi.status();
    EXPECT_TRUE(abi->domains);
    EXPECT_TRUE(abi->end_lines);
    EXPECT_FALSE(abi->one_postponed_queue);
    EXPECT_EQ(abi->young_ptr, 8u);
    EXPECT_EQ(abi->current_stack, 40u);
    EXPECT_EQ(abi->memprof_config, 64u);
  }
  EXPECT_EQ(runtime_abi_for("5.3.0")->external_interrupt, 256u);
  EXPECT_EQ(runtime_abi_for("5.4.1")->external_interrupt, 288u);
  EXPECT_EQ(runtime_abi_for("5.5.2")->external_interrupt, 288u);
  EXPECT_FALSE(runtime_abi_for("4.14.1")->domains);
}

TEST(RuntimeAbi, KnowsWhereACollectionMovesTheCallstackOfASample) {
  EXPECT_TRUE(runtime_abi_for("5.4.0")->callstacks_stay);
  EXPECT_TRUE(runtime_abi_for("5.4.1+flambda")->callstacks_stay);
  for (const char* version : {"5.3.0", "5.4.0~rc1", "5.4.0~beta2", "5.3"})
    EXPECT_FALSE(runtime_abi_for(version)->callstacks_stay) << version;
}

// caml_c_call of Debian 13's OCaml 5.3.0.
const std::vector<std::byte> kCall53 =
    bytes_of({0x4d, 0x8b, 0x56, 0x28, 0x49, 0x89, 0x22, 0x4d, 0x8b, 0x5e, 0x40, 0x49,
              0x89, 0x63, 0x08, 0x4d, 0x89, 0x13, 0x4c, 0x89, 0xdc, 0x4d, 0x89, 0x7e,
              0x08, 0xff, 0xd0, 0x4d, 0x8b, 0x7e, 0x08, 0x48, 0x8b, 0x64, 0x24, 0x08});
// Its caml_process_external_interrupt.
const std::vector<std::byte> kInterrupt53 =
    bytes_of({0xf3, 0x0f, 0x1e, 0xfa, 0x64, 0x48, 0x8b, 0x04, 0x25, 0xe8, 0xff,
              0xff, 0xff, 0x48, 0x8b, 0x80, 0x00, 0x01, 0x00, 0x00, 0x48, 0x85,
              0xc0, 0x74, 0x07, 0xff, 0x25, 0xa9, 0xba, 0x09, 0x00, 0x90});

// Its caml_memprof_delete_domain, caml_gc_minor_words_unboxed and caml_alloc_shr.
const std::vector<std::byte> kDelete53 =
    bytes_of({0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x48, 0x89, 0xfb, 0x48, 0x8b, 0xbf,
              0xd0, 0x01, 0x00, 0x00, 0xe8, 0x7c, 0xf7, 0xff, 0xff, 0x48, 0xc7,
              0x83, 0xd0, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x5b, 0xc3});
const std::vector<std::byte> kMinorWords53 =
    bytes_of({0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x05, 0xd5, 0xce, 0x04, 0x00, 0x66, 0x0f,
              0xef, 0xc0, 0x64, 0x48, 0x8b, 0x10, 0x48, 0x8b, 0x42, 0x18, 0x48, 0x2b, 0x42,
              0x08, 0x48, 0xc1, 0xe8, 0x03, 0xf2, 0x48, 0x0f, 0x2a, 0xc0, 0x48, 0x8b, 0x82,
              0x80, 0x01, 0x00, 0x00, 0x48, 0x85, 0xc0, 0x78, 0x10, 0xc3});
const std::vector<std::byte> kAllocShr53 =
    bytes_of({0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x05, 0x55, 0xff, 0x03, 0x00, 0x41, 0x54, 0x55,
              0x53, 0x64, 0x4c, 0x8b, 0x20, 0x4d, 0x85, 0xe4, 0x0f, 0x84, 0xc4, 0x00, 0x00, 0x00,
              0x48, 0x89, 0xfd, 0x49, 0x8b, 0xbc, 0x24, 0x18, 0x01, 0x00, 0x00, 0x89, 0xf2});

AgentCode code53() {
  return {.process_interrupt = kInterrupt53,
          .delete_domain = kDelete53,
          .minor_words = kMinorWords53,
          .alloc_shr = kAllocShr53};
}

// Offsets of a runtime with an additional field before the one at `from`.
std::vector<std::byte> with_a_field_more(std::vector<std::byte> code, int from) {
  for (std::size_t i = 0; i + 4 <= code.size(); ++i) {
    std::uint32_t at = 0;
    std::memcpy(&at, &code[i], sizeof at);
    if (at != static_cast<std::uint32_t>(from)) continue;
    at += 8;
    std::memcpy(&code[i], &at, sizeof at);
  }
  return code;
}

// Each offset that the agent uses is checked separately.
TEST(RuntimeAbi, RefusesAFieldMoreInOcaml5) {
  const RuntimeAbi abi = *runtime_abi_for("5.3.0");
  EXPECT_TRUE(verify_agent_abi(abi, code53()).ok()) << verify_agent_abi(abi, code53());
  const std::vector<std::byte> memprof = with_a_field_more(kDelete53, 464);
  const std::vector<std::byte> words = with_a_field_more(kMinorWords53, 384);
  const std::vector<std::byte> heap = with_a_field_more(kAllocShr53, 280);
  AgentCode code = code53();
  code.delete_domain = memprof;
  EXPECT_EQ(verify_agent_abi(abi, code).message(),
            "the OCaml 5.3.0 runtime is a modified build: caml_memprof_delete_domain keeps memprof "
            "at 472, expected 464");
  code = code53();
  code.minor_words = words;
  EXPECT_EQ(verify_agent_abi(abi, code).message(),
            "the OCaml 5.3.0 runtime is a modified build: caml_gc_minor_words_unboxed keeps "
            "stat_minor_words at 392, expected 384");
  code = code53();
  code.alloc_shr = heap;
  EXPECT_EQ(verify_agent_abi(abi, code).message(),
            "the OCaml 5.3.0 runtime is a modified build: caml_alloc_shr keeps shared_heap at 288, "
            "expected 280");
  code = code53();
  code.alloc_shr = {};
  EXPECT_EQ(verify_agent_abi(abi, code).message(),
            "the OCaml 5.3.0 runtime is a modified build: caml_alloc_shr keeps shared_heap at no "
            "known place, expected 280");
}

TEST(RuntimeAbi, DecodesFarLoads) {
  const auto load = bytes_of({0x49, 0x8b, 0xbc, 0x24, 0x18, 1, 0, 0});  // mov 280(%r12), %rdi
  EXPECT_EQ(decode_far_load(load, FarLoad::kAny), 280u);
  EXPECT_EQ(decode_far_load(load, FarLoad::kToRdi), 280u);
  EXPECT_EQ(decode_far_load(load, FarLoad::kFromRdi), std::nullopt);
  const auto other = bytes_of({0x4c, 0x8b, 0xbf, 0xd0, 1, 0, 0});  // mov 464(%rdi), %r15
  EXPECT_EQ(decode_far_load(other, FarLoad::kFromRdi), 464u);
  EXPECT_EQ(decode_far_load(other, FarLoad::kToRdi), std::nullopt);
  // Cut off; a near field; of the instruction pointer; of r15 instead of rdi.
  EXPECT_EQ(decode_far_load(std::span(load).first(7), FarLoad::kAny), std::nullopt);
  EXPECT_EQ(decode_far_load(bytes_of({0x48, 0x8b, 0x42, 0x18, 0, 0, 0}), FarLoad::kAny),
            std::nullopt);
  EXPECT_EQ(decode_far_load(bytes_of({0x48, 0x8b, 0x05, 1, 2, 3, 4}), FarLoad::kAny), std::nullopt);
  EXPECT_EQ(decode_far_load(bytes_of({0x49, 0x8b, 0x87, 1, 2, 0, 0}), FarLoad::kFromRdi),
            std::nullopt);
}

TEST(RuntimeAbi, DecodesRealCodeOfOcaml5) {
  EXPECT_EQ(decode_caml_c_call(kCall53).current_stack, 40u);
  EXPECT_EQ(decode_caml_c_call(kCall53).c_stack, 64u);
  EXPECT_EQ(decode_caml_c_call(kCall53).young_ptr, 8u);
  EXPECT_EQ(decode_process_interrupt(kInterrupt53), 256u);
  EXPECT_TRUE(verify_runtime_abi(*runtime_abi_for("5.3.0"), kCall53).ok());
  EXPECT_EQ(decode_far_load(kDelete53, FarLoad::kFromRdi), 464u);
  EXPECT_EQ(decode_far_load(kMinorWords53, FarLoad::kAny), 384u);
  EXPECT_EQ(decode_far_load(kAllocShr53, FarLoad::kToRdi), 280u);
  EXPECT_TRUE(verify_agent_abi(*runtime_abi_for("4.13.1"), {}).ok());
  // The other version's offset.
  EXPECT_EQ(verify_agent_abi(*runtime_abi_for("5.4.1"), code53()).message(),
            "the OCaml 5.4.1 runtime is a modified build: caml_process_external_interrupt keeps "
            "requested_external_interrupt at 256, expected 288");
  EXPECT_FALSE(verify_agent_abi(*runtime_abi_for("5.3.0"), {}).ok());
  EXPECT_FALSE(verify_runtime_abi(*runtime_abi_for("5.3.0"), kCall413).ok());
  EXPECT_EQ(decode_process_interrupt(bytes_of({0x74, 0x48, 0x8b, 0x80, 0, 1, 0, 0})), std::nullopt);
}

// runtime/caml/domain_state.tbl of 5.0.0, 5.1.1 and 5.2.0.
TEST(RuntimeAbi, KnowsTheLayoutsWithoutAMemprof) {
  for (const char* version : {"5.0.0", "5.1.1", "5.2.0"}) {
    const auto abi = runtime_abi_for(version);
    ASSERT_TRUE(abi.ok()) << abi.status();
    EXPECT_TRUE(abi->domains);
    EXPECT_FALSE(abi->has_memprof);
    EXPECT_EQ(abi->current_stack, std::string(version) == "5.0.0" ? 32u : 40u);
    EXPECT_EQ(abi->young_ptr, 8u);
    EXPECT_EQ(abi->young_alloc_end, 24u);
    EXPECT_EQ(abi->shared_heap, 272u);
    EXPECT_EQ(abi->stats, 376u);
  }
  EXPECT_FALSE(runtime_abi_for("5.1.1")->end_lines);
  EXPECT_TRUE(runtime_abi_for("5.2.0")->end_lines);
  EXPECT_TRUE(runtime_abi_for("4.13.1")->has_memprof);
  EXPECT_TRUE(runtime_abi_for("5.3.0")->has_memprof);
}

// caml_c_call of the OCaml 5.0 series: current_stack is one word lower there.
TEST(RuntimeAbi, TheCodeTells50From51) {
  auto code = kCall53;
  code[3] = std::byte{0x20};
  EXPECT_TRUE(verify_runtime_abi(*runtime_abi_for("5.0.0"), code).ok());
  EXPECT_FALSE(verify_runtime_abi(*runtime_abi_for("5.1.1"), code).ok());
  EXPECT_TRUE(verify_runtime_abi(*runtime_abi_for("5.2.0"), kCall53).ok());
}

TEST(RuntimeAbi, RefusesOthersInOneLine) {
  const auto why = [](const char* version) {
    const auto abi = runtime_abi_for(version);
    EXPECT_EQ(abi.status().code(), absl::StatusCode::kFailedPrecondition) << version;
    return std::string(abi.status().message());
  };
  EXPECT_EQ(why("5.6.0"), "OCaml 5.6.0 is not supported yet, only 4.11 to 4.14 and 5.0 to 5.5 are");
  EXPECT_EQ(why("4.08.1"),
            "OCaml 4.08.1 is not supported yet, only 4.11 to 4.14 and 5.0 to 5.5 are");
  why("4.1");
  why("4.131");
  why("");
  why("trunk");
}

TEST(RuntimeAbi, DecodesRealCode) {
  const CodeOffsets offsets = decode_caml_c_call(kCall413);
  EXPECT_EQ(offsets.last_return_address, 216u);
  EXPECT_EQ(offsets.bottom_of_stack, 208u);
  EXPECT_EQ(offsets.young_ptr, 8u);
  EXPECT_TRUE(verify_runtime_abi(*runtime_abi_for("4.13.1"), kCall413).ok());
}

TEST(RuntimeAbi, DecodesBothFormsOfYoungPtr) {
  EXPECT_EQ(decode_caml_c_call(bytes_of({0x4d, 0x89, 0xbe, 0x00, 0x01, 0x00, 0x00})).young_ptr,
            256u);
  EXPECT_EQ(decode_caml_c_call(bytes_of({0x4d, 0x89, 0x3e})).young_ptr, 0u);
}

TEST(RuntimeAbi, StopsAtTheEndOfTheFunction) {
  auto code = bytes_of({0xff, 0xe0});
  code.insert(code.end(), kCall413.begin(), kCall413.end());
  EXPECT_FALSE(decode_caml_c_call(code).young_ptr.has_value());
  EXPECT_FALSE(decode_caml_c_call({}).young_ptr.has_value());
  EXPECT_FALSE(decode_caml_c_call(bytes_of({0x41, 0x8f, 0x86, 0xd8})).last_return_address);
}

TEST(RuntimeAbi, MismatchNamesTheField) {
  auto code = kCall413;
  code[3] = std::byte{0xe0};
  const absl::Status status = verify_runtime_abi(*runtime_abi_for("4.13.1"), code);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "the OCaml 4.13.1 runtime is a modified build: caml_c_call keeps last_return_address "
            "at 224, expected 216");
  EXPECT_FALSE(verify_runtime_abi(*runtime_abi_for("4.13.1"), {}).ok());
}

}  // namespace
}  // namespace memprofd
