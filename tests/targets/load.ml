(* SPDX-License-Identifier: Apache-2.0 *)
(* Allocates at full speed, a little, or not at all, on command:

     busy   hundreds of millions of words per second of CPU time
     light  tens or hundreds of thousands of words
     rest   waits
     exit

   Busy and light use about a third of a processor, so that the cost of profiling is a visible share.

   Each command answers {"words":N}: words allocated so far, including headers, except for the few
   words of the commands. Gc.minor_words would also count Memprof's own allocations. *)

let words_a_block = 3
let mix x = ((x * 1_103_515_245) + 12_345) mod 268_435_399 * 69_069 mod 268_435_399

let allocated = ref 0

let[@inline never] allocate blocks checksum =
  for i = 1 to blocks do
    let block = Sys.opaque_identity (i, !checksum) in
    checksum := mix (fst block + snd block)
  done;
  allocated := !allocated + (blocks * words_a_block)

let[@inline never] compute n checksum =
  for i = 1 to n do
    checksum := mix (i + !checksum)
  done

let checksum = ref 0
let busy () = allocate 300_000 checksum
let light () = allocate 1_000 checksum; compute 4_000_000 checksum
let rest_of_busy_s = 0.002
let rest_of_light_s = 0.02
let answer () = Printf.printf "{\"words\":%d}\n%!" !allocated

let rec work piece rest_s =
  piece ();
  match Handshake.poll_command ~patience_s:rest_s () with
  | None -> work piece rest_s
  | Some words -> obey words

and obey words =
  answer ();
  match words with
  | [ "busy" ] -> work busy rest_of_busy_s
  | [ "light" ] -> work light rest_of_light_s
  | [ "exit" ] -> ()
  | _ -> obey (Handshake.command ())

let () =
  Handshake.ready ();
  obey (Handshake.command ())
