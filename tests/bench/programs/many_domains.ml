(* SPDX-License-Identifier: Apache-2.0 *)
(* many_domains [WORDS], for OCaml 5: two domains, each of which allocates WORDS words in
   small blocks. One in 64 blocks survives for a while. *)

let words_wanted = Handshake.int_argument 1 100_000_000
let domains = 2
let words_a_block = 3
let mix x = ((x * 1_103_515_245) + 12_345) mod 268_435_399 * 69_069 mod 268_435_399

let[@inline never] allocate ring n =
  let checksum = ref 0 in
  for i = 1 to n do
    let block = Sys.opaque_identity (i, !checksum) in
    if i land 63 = 0 then ring.((i lsr 6) land 131_071) <- block;
    checksum := mix (fst block + snd block)
  done;
  !checksum

let work () =
  let one () = allocate (Array.make 131_072 (0, 0)) (words_wanted / words_a_block) in
  let started = List.init domains (fun _ -> Domain.spawn one) in
  List.fold_left (fun sum domain -> sum + Domain.join domain) 0 started

let () = Handshake.serve_work work
