(* SPDX-License-Identifier: Apache-2.0 *)
(* The protocol between a target and its test: the target prints a line when it is ready, and
   reads one command per line. Reading blocks in the kernel and allocates only after a
   line has arrived, so that a waiting target is truly idle. *)

(* Called before a target prints that it is ready. *)
let before_ready = ref (fun () -> ())

let ready ?(extra = "") () =
  !before_ready ();
  Printf.printf "ready %s%d\n%!" extra (Unix.getpid ())

(* Waits for the next command and returns its words; [["exit"]] at the end of input. *)
let rec command () =
  match input_line stdin with
  | line -> String.split_on_char ' ' (String.trim line)
  | exception End_of_file -> [ "exit" ]
  | exception Sys_error _ -> command () (* a signal has interrupted it *)

(* The next command, if one arrives in time. *)
let poll_command ?(patience_s = 0.0) () =
  match Unix.select [ Unix.stdin ] [] [] patience_s with
  | [], _, _ -> None
  | _ -> Some (command ())
  | exception Unix.Unix_error (Unix.EINTR, _, _) -> None

(* The positional argument [n] as a number, or its default. *)
let int_argument n default =
  if Array.length Sys.argv > n then int_of_string Sys.argv.(n) else default

(* Deterministic work whose results are checked, so that a disturbed target reports errors. *)
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

(* The main loop of deterministic workloads. Each "go" runs [work], which returns a
   checksum, and prints it with the collector's totals. "minor" is one minor
   collection, for an agent that needs one before the work. *)
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
