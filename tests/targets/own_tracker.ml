(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: follows blocks with its own tracker, as Memtrace does, even if another sampler is active. Commands:

     keep N    allocates N blocks of 4 words and keeps them
     drop      drops all of them
     start     Gc.Memprof.start, at a rate of 1e-2
     stop      Gc.Memprof.stop
     discard   Gc.Memprof.discard
     spawn     runs "keep 50000" in a new domain, which then ends
     tracked   the same in a domain that first starts the tracker, and finally stops it
     exit

   All but the last end with full major collections. Each answers
   {"words":N,"allocated":N,"live":N,"failures":N}: words allocated by "keep", "spawn" and "tracked", samples of the
   tracker, live ones among them, and calls that raised an exception. *)

let words = ref 0
let allocated = Atomic.make 0
let live = Atomic.make 0
let failures = ref 0
let kept = ref []
let profile = ref None

let follow (info : Gc.Memprof.allocation) =
  ignore (Atomic.fetch_and_add allocated info.n_samples);
  ignore (Atomic.fetch_and_add live info.n_samples);
  Some info.n_samples

let forget n = ignore (Atomic.fetch_and_add live (-n))

let tracker =
  { Gc.Memprof.alloc_minor = follow; alloc_major = follow; promote = (fun n -> Some n);
    dealloc_minor = forget; dealloc_major = forget }

let[@inline never] site_triple i = Sys.opaque_identity (i, i, i)

(* A block needs 4 words, and its cell in the list 3 more, including headers. *)
let blocks n = List.init n site_triple
let words_of n = 7 * n

let keep n =
  kept := blocks n :: !kept;
  words := !words + words_of n

let spawn () =
  let n = 50_000 in
  kept := Domain.join (Domain.spawn (fun () -> blocks n)) :: !kept;
  words := !words + words_of n

let attempt f = try f () with Failure _ -> incr failures

let start () =
  profile := Some (Gc.Memprof.start ~sampling_rate:1e-2 ~callstack_size:0 tracker)

let tracked () =
  let n = 50_000 in
  let work () =
    attempt start;
    let found = blocks n in
    attempt Gc.Memprof.stop;
    found
  in
  kept := Domain.join (Domain.spawn work) :: !kept;
  words := !words + words_of n

let answer () =
  Printf.printf "{\"words\":%d,\"allocated\":%d,\"live\":%d,\"failures\":%d}\n%!" !words
    (Atomic.get allocated) (Atomic.get live) !failures

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | command ->
    (match command with
     | [ "keep"; n ] -> keep (int_of_string n)
     | [ "drop" ] -> kept := []
     | [ "start" ] -> attempt start
     | [ "stop" ] -> attempt Gc.Memprof.stop
     | [ "discard" ] -> attempt (fun () -> Option.iter Gc.Memprof.discard !profile)
     | [ "spawn" ] -> spawn ()
     | [ "tracked" ] -> tracked ()
     | words -> failwith (String.concat " " words));
    Gc.full_major ();
    Gc.full_major ();
    answer ();
    serve ()

let () =
  Handshake.ready ();
  serve ();
  answer ()
