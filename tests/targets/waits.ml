(* SPDX-License-Identifier: Apache-2.0 *)
(* Keeps a known heap, prints what the collector counts in it, and waits without allocating, in one of
   several ways. Waits with a timeout are repeated; one that ends early or with an error counts as wrong.
   A line of input is a command, "report" or "exit"; its answer may be late by one such wait. *)

external build_in_c : int -> int list = "waits_build"
external epoll_wait : int -> int = "waits_epoll"

let kept = ref []
let timed_s = 0.1
let waits = ref 0
let wrong = ref 0

let build () =
  kept := List.init 20_000 (fun i -> (string_of_int i, Array.make (i mod 7) i, ref i));
  Gc.full_major ();
  Gc.full_major ()

let tell () =
  let s = Gc.stat () in
  Printf.printf "{\"blocks\":%d,\"words\":%d,\"heap_words\":%d,\"kept_words\":%d}\n%!" s.Gc.live_blocks s.live_words
    s.heap_words
    (Obj.reachable_words (Obj.repr !kept))

let timed wait =
  let began = Unix.gettimeofday () in
  (match wait () with true -> () | false | (exception _) -> incr wrong);
  if Unix.gettimeofday () -. began < timed_s -. 0.002 then incr wrong;
  incr waits

let report () =
  Printf.printf "{\"waits\":%d,\"wrong\":%d,\"kept\":%d}\n%!" !waits !wrong (List.length !kept)

let obey = function [ "exit" ] -> exit 0 | [ "report" ] -> report () | _ -> incr wrong

let rec until_input wait =
  (match Handshake.poll_command () with Some command -> obey command | None -> timed wait);
  until_input wait

(* Repeats a wait that input ends. *)
let rec forever wait = wait (); obey (Handshake.command ()); forever wait

let select timeout () = Unix.select [ Unix.stdin ] [] [] timeout

let unix_socket kind =
  let socket = Unix.socket Unix.PF_INET kind 0 in
  Unix.bind socket (Unix.ADDR_INET (Unix.inet_addr_loopback, 0));
  socket

(* Prints a report for each connection. *)
let rec accept socket =
  (match Unix.accept socket with
   | client, _ -> Unix.close client; report ()
   | exception Unix.Unix_error _ -> incr wrong);
  accept socket

let say_port socket =
  match Unix.getsockname socket with Unix.ADDR_INET (_, port) -> Printf.printf "%d\n%!" port | _ -> ()

let udp_socket timeout =
  let socket = unix_socket Unix.SOCK_DGRAM in
  Unix.setsockopt_float socket Unix.SO_RCVTIMEO timeout;
  socket

let waits_in = function
  | "read" -> forever ignore
  | "select" -> forever (fun () -> match select (-1.0) () with [ _ ], _, _ -> () | _ | (exception _) -> incr wrong)
  | "sleep" -> until_input (fun () -> Unix.sleepf timed_s; true)
  | "epoll" -> until_input (fun () -> epoll_wait (int_of_float (1e3 *. timed_s)) = 0)
  | "timed_select" ->
    let rec wait () =
      let began = Unix.gettimeofday () in
      match select timed_s () with
      | [], _, _ ->
        if Unix.gettimeofday () -. began < timed_s -. 0.002 then incr wrong;
        incr waits;
        wait ()
      | _ -> obey (Handshake.command ()); wait ()
      | exception _ -> incr wrong; wait ()
    in
    wait ()
  | "accept" ->
    let socket = unix_socket Unix.SOCK_STREAM in
    Unix.listen socket 5;
    say_port socket;
    accept socket
  | "timed_read" ->
    let socket = udp_socket timed_s and bytes = Bytes.create 1 in
    until_input (fun () ->
        match Unix.recv socket bytes 0 1 [] with
        | _ -> false
        | exception Unix.Unix_error ((Unix.EAGAIN | Unix.EWOULDBLOCK), _, _) -> true)
  | "long_read" ->
    (* Prints a report for each datagram. *)
    let socket = udp_socket 3600.0 and bytes = Bytes.create 1 in
    say_port socket;
    let rec wait () =
      (match Unix.recv socket bytes 0 1 [] with _ -> report () | exception _ -> incr wrong);
      wait ()
    in
    wait ()
  | "busy" ->
    let rec work () =
      (match Handshake.poll_command () with Some command -> obey command | None -> ());
      ignore (Sys.opaque_identity (List.init 20_000 (fun i -> (i, string_of_int i))));
      work ()
    in
    work ()
  | "in_c" ->
    let rec work () =
      (match Handshake.poll_command () with Some command -> obey command | None -> ());
      if List.length (build_in_c 2_000) <> 2_000 then incr wrong;
      work ()
    in
    work ()
  | "in_turns" ->
    let rec work () =
      (match Handshake.poll_command () with Some command -> obey command | None -> ());
      kept := List.init 20_000 (fun i -> (string_of_int i, Array.make (i mod 7) i, ref i));
      Unix.sleepf 0.001;
      work ()
    in
    work ()
  | kind -> failwith kind

let () =
  build ();
  Handshake.ready ();
  tell ();
  waits_in Sys.argv.(1)
