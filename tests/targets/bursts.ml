(* SPDX-License-Identifier: Apache-2.0 *)
(* Allocates small, exactly known amounts on command.

   Commands: "burst N" allocates N blocks of 9 words, header included, and drops them; "keep N" keeps
   them; "minor"; "exit". All answer {"words":W}, the words allocated so far. *)

let words = ref 0
let kept = ref []
let[@inline never] block () = Sys.opaque_identity (Bytes.create 63)
let count n = words := !words + (9 * n)

let rec serve () =
  let continues =
    match Handshake.command () with
    | [ "burst"; n ] ->
      for _ = 1 to int_of_string n do ignore (block ()) done;
      count (int_of_string n);
      true
    | [ "keep"; n ] ->
      for _ = 1 to int_of_string n do kept := block () :: !kept done;
      count (int_of_string n);
      true
    | [ "minor" ] -> Gc.minor (); true
    | [ "exit" ] -> false
    | _ -> true
  in
  Printf.printf "{\"words\":%d}\n%!" !words;
  if continues then serve ()

let () =
  Handshake.ready ();
  serve ()
