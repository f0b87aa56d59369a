(* SPDX-License-Identifier: Apache-2.0 *)
(* How every target talks to its test: one line out when it is ready, one
   command a line in. Reading blocks in the kernel and allocates only once a
   line has come, so that a waiting target is truly idle. *)

(* Done before a target says that it is ready. *)
let before_ready = ref (fun () -> ())

let ready ?(extra = "") () =
  !before_ready ();
  Printf.printf "ready %s%d\n%!" extra (Unix.getpid ())

(* The next command as words; [["exit"]] at the end of input. *)
let rec command () =
  match input_line stdin with
  | line -> String.split_on_char ' ' (String.trim line)
  | exception End_of_file -> [ "exit" ]
  | exception Sys_error _ -> command () (* interrupted by a signal *)

(* The next command when one comes in time. *)
let poll_command ?(patience_s = 0.0) () =
  match Unix.select [ Unix.stdin ] [] [] patience_s with
  | [], _, _ -> None
  | _ -> Some (command ())
  | exception Unix.Unix_error (Unix.EINTR, _, _) -> None

(* Counts the positional argument [n], or its default. *)
let int_argument n default =
  if Array.length Sys.argv > n then int_of_string Sys.argv.(n) else default

(* Work that is always the same and is checked, so that a disturbed target shows as errors. *)
module Checked_work = struct
  let words_a_piece = 400

  let[@inline never] make_words () =
    List.init words_a_piece (fun i -> Printf.sprintf "w%d" (i * 7919 mod 1000))

  let[@inline never] answer_to words =
    let sorted = List.sort compare words in
    let total = List.fold_left (fun sum word -> sum + String.length word) 0 sorted in
    Printf.sprintf "%d %s" total (String.concat "," sorted)

  let expected = lazy (answer_to (make_words ()))
  let requests = ref 0
  let errors = ref 0

  let piece () =
    if answer_to (make_words ()) <> Lazy.force expected then incr errors;
    incr requests
end

(* The frame of the deterministic workloads: each "go" runs [work], which answers
   with a checksum, and prints what the garbage collector did in all. "minor" is one
   minor collection, for what waits for one to come in before the work. *)
let serve_work work =
  let rec loop () =
    match command () with
    | [ "go" ] ->
      let before = Sys.time () in
      let checksum = work () in
      let seconds = Sys.time () -. before in
      let gc = Gc.quick_stat () in
      Printf.printf "done %.6f %d %d %d %d\n%!" seconds checksum gc.minor_collections
        gc.major_collections gc.heap_words;
      loop ()
    | [ "minor" ] -> Gc.minor (); print_endline "minor"; loop ()
    | [ "exit" ] -> ()
    | words ->
      Printf.printf "unknown command: %s\n%!" (String.concat " " words);
      loop ()
  in
  ready ();
  loop ()
