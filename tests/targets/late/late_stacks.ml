(* SPDX-License-Identifier: Apache-2.0 *)
(* Lets C code allocate. Its Memprof callbacks run later than the samples, when the stacks of the samples
   no longer exist. Commands:

     go N        runs N rounds of OCaml and C allocations on stacks of many depths
     policy P    sets another allocation policy with Gc.set
     compact     lets C allocate on some stacks, and compacts the heap before OCaml allocates again
     minor       runs a minor collection
     stop        Gc.Memprof.stop
     thread      starts another thread that works from then on
     words N     lets C allocate N blocks of one word in the major heap
     fork        forks a child that works until its parent ends; answers its pid
     exec FILE   executes that program
     exit

   Each answers {"rounds":N,"compactions":N,"pid":N}. *)

external one_word : int -> unit = "late_stacks_one_word"

let rounds = ref 0
let child = ref 0
let sink = ref 0
let use n = sink := (!sink + n) land 0xFFFFFFF

(* C code allocates in the major heap; OCaml code allocates nothing here. *)
let[@inline never] by_c words = use (Bytes.length (Sys.opaque_identity (Bytes.create (8 * words))))
let[@inline never] rec left depth words = if depth = 0 then by_c words else (right (depth - 1) words; use 1)
and[@inline never] right depth words = if depth = 0 then by_c words else (left (depth - 1) words; use 2)

(* The stacks of these samples no longer exist when OCaml allocates the next time. *)
let[@inline never] late i =
  for k = 1 to 4 do
    left (((i * 7) + (k * 11)) mod 60) 300;
    right ((i + k) mod 17) 300
  done

exception Out of int list

let[@inline never] rec thrown depth = if depth = 0 then raise (Out [ !sink ]) else (thrown (depth - 1); use 1)
let[@inline never] small_by_c i = use (String.length (Sys.opaque_identity (String.concat "," [ string_of_int i; "of"; "c" ])))

let[@inline never] rec deep depth f = if depth = 0 then f () else (deep (depth - 1) f; use (List.length (Sys.opaque_identity [ depth ])))

let[@inline never] unmarshalled i : int list * string =
  Marshal.from_string (Marshal.to_string ([ i; i + 1; i + 2 ], String.make 40 'm') []) 0

let[@inline never] sorted i = List.sort (fun a b -> small_by_c a; compare a b) [ i; 3; i + 2; 1 ]

let round i =
  late i;
  (try thrown (i mod 40) with Out l -> use (List.length l));
  deep (i mod 50) (fun () -> small_by_c i; use (List.length (fst (unmarshalled i))));
  use (List.length (sorted i));
  incr rounds

let go n = for i = 1 to n do round i done

let compact () =
  late !rounds;
  Gc.compact ();
  small_by_c !rounds

let rec work_on () =
  go 20;
  ignore (Unix.select [] [] [] 0.002);
  work_on ()

let fork () =
  let parent = Unix.getpid () in
  match Unix.fork () with
  | 0 ->
    ignore (Thread.create (fun () -> while Unix.getppid () = parent do Thread.delay 0.1 done; Unix.kill (Unix.getpid ()) Sys.sigkill) ());
    work_on ()
  | pid -> child := pid

let background () = while true do go 5; Thread.delay 0.001 done

let answer () =
  Printf.printf "{\"rounds\":%d,\"compactions\":%d,\"pid\":%d}\n%!" !rounds (Gc.quick_stat ()).compactions !child

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | command ->
    (match command with
     | [ "go"; n ] -> go (int_of_string n)
     | [ "policy"; p ] -> Gc.set { (Gc.get ()) with allocation_policy = int_of_string p }
     | [ "compact" ] -> compact ()
     | [ "minor" ] -> Gc.minor ()
     | [ "stop" ] -> (try Gc.Memprof.stop () with Failure _ -> ())
     | [ "words"; n ] -> one_word (int_of_string n)
     | [ "thread" ] -> ignore (Thread.create background ())
     | [ "fork" ] -> fork ()
     | [ "exec"; program ] -> Unix.execv program [| program |]
     | _ -> ());
    answer ();
    serve ()

let () =
  Handshake.ready ();
  serve ()
