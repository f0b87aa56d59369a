(* SPDX-License-Identifier: Apache-2.0 *)
(* Eight threads: four pairs of a client and a server that communicate over pipes.
   Every answer is checked, so that a disturbed target reports errors. Each thousand
   requests have the same answers, so there is only one checksum of them.

   The threads rest between requests and use about a tenth of a processor, so that other programs
   can run. With the argument "busy" they do not rest.

   Commands: "stat", "fork" (a child that ends immediately) and "exit" answer
   {"requests":N,"errors":N,"checksums":[N]}; "exec PROGRAM" executes that program. *)

let pairs = 4
let period = 1_000
let rests = not (Array.mem "busy" Sys.argv)
let requests_between_rests = 20
let rest_s = 0.005
let stopping = ref false
let requests = ref 0
let errors = ref 0

(* The distinct checksums. *)
let checksums = ref []
let checksums_lock = Mutex.create ()

let note checksum =
  Mutex.lock checksums_lock;
  if not (List.mem checksum !checksums) then checksums := checksum :: !checksums;
  Mutex.unlock checksums_lock

type request = { number : int; words : string list }

let[@inline never] parse_request line =
  match String.split_on_char ' ' line with
  | number :: words -> { number = int_of_string number; words }
  | [] -> invalid_arg "empty request"

let[@inline never] answer_to { number; words } =
  let sorted = List.sort compare words in
  let lengths = List.map String.length sorted in
  let total = List.fold_left ( + ) number lengths in
  Printf.sprintf "%d %s" total (String.concat "," sorted)

let serve input output =
  try
    while true do
      output_string output (answer_to (parse_request (input_line input)));
      output_char output '\n';
      flush output
    done
  with End_of_file -> close_out output

let[@inline never] make_words number =
  List.init 12 (fun i -> Printf.sprintf "w%d" ((number * 31 + i * 7) mod 1000))

let ask input output number =
  let words = make_words number in
  let line = String.concat " " (string_of_int number :: words) in
  output_string output (line ^ "\n");
  flush output;
  let expected = answer_to { number; words } in
  let answer = input_line input in
  if answer <> expected then incr errors;
  incr requests;
  Hashtbl.hash answer

let client input output =
  let number = ref 0 and checksum = ref 0 in
  (try
     while not !stopping do
       checksum := ((!checksum * 31) + ask input output !number) land 0xffffff;
       number := (!number + 1) mod period;
       if !number = 0 then (note !checksum; checksum := 0);
       if rests && !number mod requests_between_rests = 0 then Thread.delay rest_s
     done
   with _ -> incr errors);
  close_out output

let start_pair _ =
  let request_in, request_out = Unix.pipe ~cloexec:true () in
  let answer_in, answer_out = Unix.pipe ~cloexec:true () in
  let reader = Unix.in_channel_of_descr and writer = Unix.out_channel_of_descr in
  let server = Thread.create (fun () -> serve (reader request_in) (writer answer_out)) () in
  let client = Thread.create (fun () -> client (reader answer_in) (writer request_out)) () in
  [ server; client ]

let answer () =
  Printf.printf "{\"requests\":%d,\"errors\":%d,\"checksums\":[%s]}\n%!" !requests !errors
    (String.concat "," (List.map string_of_int !checksums))

let rec control () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | [ "fork" ] ->
    (match Unix.fork () with
     | 0 -> Unix.execv "/bin/true" [| "true" |]
     | child -> ignore (Unix.waitpid [] child));
    answer ();
    control ()
  | [ "exec"; program ] -> Unix.execv program [| program |]
  | _ -> answer (); control ()

let () =
  let threads = List.concat_map start_pair (List.init pairs Fun.id) in
  Handshake.ready ();
  control ();
  stopping := true;
  List.iter Thread.join threads;
  answer ()
