(* SPDX-License-Identifier: Apache-2.0 *)
(* Makes true and false assertions on command:
   "leak N", "free N"      values that stay in a table; values that die
   "order N", "disorder N" buffers that die with their session; buffers that outlive it
   "later N"               live values that may live for an hour
   "constant"              a value that is not a block of the heap
   "region KIB LIMIT"      keeps KIB KiB in a region that may keep LIMIT KiB
   "rounds N"              true assertions of all kinds, in fast rounds, with collections in between
   "collect", "forget"     collects garbage; clears the table
   "verify"                verifies the assertions now
   "quit"                  ends without running exit functions *)

let leaked : (int, int ref) Hashtbl.t = Hashtbl.create 16
let buffers : Bytes.t list ref = ref []
let sessions : string list ref = ref []
let kept : Bytes.t list ref = ref []
let[@inline never] new_session i = String.make (10 + (i mod 7)) 's'
let[@inline never] times n f = for i = 1 to n do f i done

let[@inline never] leak i =
  let session = ref i in
  Hashtbl.replace leaked i session;
  Memprof_check.unreachable "leaking session" session

let[@inline never] free i = Memprof_check.unreachable "session" (ref i)

let[@inline never] order i =
  let session = new_session i and buffer = Bytes.create 64 in
  Memprof_check.dies_before "buffer" buffer ~other:session;
  sessions := session :: !sessions

let[@inline never] disorder i =
  let session = new_session i and buffer = Bytes.create 64 in
  Memprof_check.dies_before "late buffer" buffer ~other:session;
  buffers := buffer :: !buffers

let[@inline never] later i =
  let session = ref i in
  Hashtbl.replace leaked (-i) session;
  Memprof_check.unreachable ~after:3600. "patient session" session

let[@inline never] region kib limit =
  Memprof_check.region "load" ~max_bytes:(limit * 1024) (fun () ->
      for _ = 1 to kib do kept := Bytes.create 1000 :: !kept done)

let[@inline never] round i =
  free i;
  let session = new_session i in
  Memprof_check.dies_before "buffer" (Bytes.create 64) ~other:session;
  sessions := [ session ];
  Memprof_check.region "round" ~max_bytes:(4 * 1024 * 1024) (fun () -> ignore (Sys.opaque_identity (Array.make 300 i)));
  if i mod 3 = 0 then Gc.minor ();
  if i mod 50 = 0 then Gc.full_major ()

let constant = "constant"

let rec run () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | [ "exit"; code ] -> exit (int_of_string code)
  | [ "quit" ] -> Unix.kill (Unix.getpid ()) Sys.sigkill
  | words ->
    (match words with
    | [ "leak"; n ] -> times (int_of_string n) leak
    | [ "free"; n ] -> times (int_of_string n) free
    | [ "order"; n ] -> times (int_of_string n) order
    | [ "disorder"; n ] -> times (int_of_string n) disorder
    | [ "later"; n ] -> times (int_of_string n) later
    | [ "constant" ] -> Memprof_check.unreachable "constant" constant
    | [ "region"; kib; limit ] -> region (int_of_string kib) (int_of_string limit)
    | [ "rounds"; n ] -> times (int_of_string n) round
    | [ "collect" ] -> Gc.full_major ()
    | [ "forget" ] -> Hashtbl.reset leaked
    | [ "verify" ] -> Memprof_check.verify ()
    | _ -> ());
    print_endline "done";
    run ()

let () =
  Handshake.ready ();
  run ()
