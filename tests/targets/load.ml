(* SPDX-License-Identifier: Apache-2.0 *)
(* Allocates as fast as it can, hardly, or not at all, as it is told:

     busy   hundreds of millions of words a second of CPU time
     light  some ten or hundred thousand
     rest   waits
     exit

   Both take about a third of a processor: what profiling takes is told as a share of that.

   Each command is answered by {"words":N}: allocated so far, headers included, but for the
   few words of the commands. Gc.minor_words would also count what Memprof allocates. *)

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
