(* SPDX-License-Identifier: Apache-2.0 *)
(* Makes the runtime and the C library use memory outside the OCaml heap.

   Commands: "unflushed N" makes N channels that cannot be flushed, so that the runtime of OCaml 4 keeps them; "open N"
   keeps N open channels; "threads N" starts N threads that wait; "remember N" creates N pointers from the major heap
   into the minor heap; "deep N" recurses N calls deep; "exit". Each answers {}. *)

let answer fd =
  let channel = Unix.out_channel_of_descr fd in
  output_string channel (String.make 10 'A');
  try flush channel with Sys_error _ -> ()

let make_channels n =
  let here, there = Unix.socketpair Unix.PF_UNIX Unix.SOCK_STREAM 0 in
  Unix.close there;
  for _ = 1 to n do answer here done;
  Unix.close here;
  Gc.full_major ()

let opened = ref []

let open_channel () =
  let channel = Unix.out_channel_of_descr Unix.stdout in
  output_string channel "A";
  channel

let lock = Mutex.create ()
let never = Condition.create ()
let waiting = ref 0

let[@inline never] watch number =
  let events = Array.make 100 number in
  Mutex.lock lock;
  incr waiting;
  while !waiting >= 0 do Condition.wait never lock done;
  ignore (Sys.opaque_identity events)

let start_threads n =
  for i = 1 to n do ignore (Thread.create watch i) done;
  while !waiting < n do Thread.yield () done

let table = ref [||]

let remember n =
  table := Array.make n (ref 0);
  Gc.full_major ();
  for i = 0 to n - 1 do !table.(i) <- ref i done

let rec depth n = if n = 0 then 0 else 1 + depth (n - 1)

let rec serve () =
  match Handshake.command () with
  | [ "unflushed"; n ] -> make_channels (int_of_string n); done_ ()
  | [ "open"; n ] -> opened := List.init (int_of_string n) (fun _ -> open_channel ()); done_ ()
  | [ "threads"; n ] -> start_threads (int_of_string n); done_ ()
  | [ "remember"; n ] -> remember (int_of_string n); done_ ()
  | [ "deep"; n ] -> ignore (Sys.opaque_identity (depth (int_of_string n))); done_ ()
  | _ -> Unix._exit 0 (* does not flush channels *)

and done_ () = print_endline "{}"; serve ()

let () =
  ignore (Sys.signal Sys.sigpipe Sys.Signal_ignore);
  Handshake.ready ();
  serve ()
