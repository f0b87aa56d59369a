(* SPDX-License-Identifier: Apache-2.0 *)
(* churn [WORDS]: allocates short-lived small blocks, about 150 million words per second,
   a rate that few real programs reach. One in 64 blocks survives for a while, so
   that the major heap has work too. The same number of words causes the same
   collections in every run. *)

let words_wanted = Handshake.int_argument 1 400_000_000
let words_a_block = 3
let ring = Array.make 131_072 (0, 0)

(* About ten nanoseconds of other work per block. *)
let mix x = ((x * 1_103_515_245) + 12_345) mod 268_435_399 * 69_069 mod 268_435_399

let[@inline never] allocate n =
  let checksum = ref 0 in
  for i = 1 to n do
    let block = Sys.opaque_identity (i, !checksum) in
    if i land 63 = 0 then ring.((i lsr 6) land 131_071) <- block;
    checksum := mix (fst block + snd block)
  done;
  !checksum

let () = Handshake.serve_work (fun () -> allocate (words_wanted / words_a_block))
