(* SPDX-License-Identifier: Apache-2.0 *)
(* bursts [WORDS]: allocates WORDS words of small blocks in ten bursts. After each burst it
   allocates nothing for as long as the burst took. Tests that the sampling rate follows the
   load. *)

let words_wanted = Handshake.int_argument 1 300_000_000
let bursts = 10
let words_a_block = 3
let mix x = ((x * 1_103_515_245) + 12_345) mod 268_435_399 * 69_069 mod 268_435_399

let[@inline never] allocate checksum n =
  for i = 1 to n do
    let block = Sys.opaque_identity (i, !checksum) in
    checksum := mix (fst block + snd block)
  done

let[@inline never] compute checksum n =
  for i = 1 to n do
    checksum := mix (i + !checksum)
  done

let work () =
  let checksum = ref 0 and blocks = words_wanted / words_a_block / bursts in
  for _ = 1 to bursts do
    allocate checksum blocks;
    compute checksum blocks
  done;
  !checksum

let () = Handshake.serve_work work
