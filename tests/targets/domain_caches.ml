(* SPDX-License-Identifier: Apache-2.0 *)
(* domain_caches [DOMAINS], for OCaml 5: each domain has a cache, and waits on a condition between jobs.

   "keep N": each domain puts N blocks of site_kept into its cache, through the remembered set of the major heap, and makes
   garbage at site_garbage. "half N": also allocates as many blocks at site_dropped and drops them. "drop": the main
   domain empties all caches without waking the others. "end" ends the other domains, "full" runs major collections,
   "churn" allocates in the main domain; for other commands each domain allocates one block. Answers
   {"kept":N,"dropped":N}, the blocks allocated so far. *)

let domains = Handshake.int_argument 1 4
let lock = Mutex.create ()
let changed = Condition.create ()
let job = ref [ "" ]
let jobs = ref 0
let working = ref 0
let slots = 4096

type entry = { data : bytes; next : entry option }

let caches : entry option array array = Array.init domains (fun _ -> Array.make slots None)
let kept = Atomic.make 0
let dropped = Atomic.make 0
let[@inline never] site_kept () = Bytes.create 200
let[@inline never] site_dropped () = Bytes.create 200

let[@inline never] site_garbage n =
  for i = 1 to n do
    ignore (Sys.opaque_identity (i, i, i))
  done

let keep domain i =
  let slot = i land (slots - 1) in
  caches.(domain).(slot) <- Some { data = site_kept (); next = caches.(domain).(slot) };
  Atomic.incr kept

let drop () =
  ignore (Sys.opaque_identity (site_dropped ()));
  Atomic.incr dropped

let work domain = function
  | [ "keep"; n ] ->
    for i = 1 to int_of_string n do
      keep domain i;
      site_garbage 20
    done
  | [ "half"; n ] ->
    for i = 1 to int_of_string n do
      keep domain i;
      drop ();
      site_garbage 20
    done
  | _ -> ignore (Sys.opaque_identity (Bytes.create 100))

let rec serve domain seen =
  Mutex.lock lock;
  while !jobs = seen do
    Condition.wait changed lock
  done;
  let seen = !jobs and now = !job in
  Mutex.unlock lock;
  if now <> [ "end" ] then work domain now;
  Mutex.protect lock (fun () ->
      decr working;
      Condition.broadcast changed);
  if now <> [ "end" ] then serve domain seen

(* Runs a job in all domains; returns when they wait again. *)
let run now =
  Mutex.protect lock (fun () ->
      job := now;
      working := domains;
      incr jobs;
      Condition.broadcast changed;
      while !working > 0 do
        Condition.wait changed lock
      done)

let () =
  let all = ref (List.init domains (fun domain -> Domain.spawn (fun () -> serve domain 0))) in
  Handshake.ready ();
  let rec commands () =
    let command = Handshake.command () in
    (match command with
    | [ "exit" ] -> exit 0
    | [ "drop" ] -> Array.iter (fun cache -> Array.fill cache 0 slots None) caches
    | [ "full" ] ->
      Gc.full_major ();
      Gc.full_major ()
    | [ "churn" ] -> site_garbage 300_000
    | [ "end" ] ->
      run command;
      List.iter Domain.join !all;
      all := []
    | _ -> run command);
    Printf.printf "{\"kept\":%d,\"dropped\":%d}\n%!" (Atomic.get kept) (Atomic.get dropped);
    commands ()
  in
  commands ()
