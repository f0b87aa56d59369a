(* SPDX-License-Identifier: Apache-2.0 *)
(* One thread that works a little every millisecond, and always the same: an ordinary program
   beside others, some million words and a few percent of a processor a second. Every piece of
   work is checked, so that a disturbed target shows as errors.

   Commands: "stat" and "exit", both answered by {"requests":N,"errors":N}. *)

let pause_s = 0.001
let words_a_piece = 400

let[@inline never] make_words () =
  List.init words_a_piece (fun i -> Printf.sprintf "w%d" (i * 7919 mod 1000))

let[@inline never] answer_to words =
  let sorted = List.sort compare words in
  let total = List.fold_left (fun sum word -> sum + String.length word) 0 sorted in
  Printf.sprintf "%d %s" total (String.concat "," sorted)

let expected = answer_to (make_words ())
let requests = ref 0
let errors = ref 0

let work () =
  if answer_to (make_words ()) <> expected then incr errors;
  incr requests

let answer () = Printf.printf "{\"requests\":%d,\"errors\":%d}\n%!" !requests !errors

let rec serve () =
  match Handshake.poll_command ~patience_s:pause_s () with
  | None -> work (); serve ()
  | Some [ "exit" ] -> answer ()
  | Some _ -> answer (); serve ()

let () =
  Handshake.ready ();
  serve ()
