(* SPDX-License-Identifier: Apache-2.0 *)
(* domains [SECONDS] [DOMAINS] [IDLE], for OCaml 5: domains that allocate at several sites,
   with threads, effect fibers, marshalling and short-lived domains. Unless IDLE is 0, one domain
   waits on a condition, after 4,000,000 words, and one in a read. Ends after SECONDS, or on "exit" if SECONDS is 0.
   "keep N" lets four domains allocate N blocks each at site_kept, which stay until "drop";
   "full" runs major collections; after "rest" the domains stay alive but allocate nothing until
   "work"; after "calm" they work a tenth of the time, for tests that only need working
   domains.
   "stat" and the end print how many words each site has allocated, including headers,
   and the checksums of each period of work, which must all be equal:

     {"sites":{"site_pair":{"allocated_words":N},...},"checksums":[N]} *)

let seconds = Handshake.int_argument 1 0
let workers = Handshake.int_argument 2 4
let idle = Handshake.int_argument 3 1

(* One domain at a time uses these counters; the answers sum them up. *)
type counts = {
  mutable pairs : int; (* words *)
  mutable arrays : int;
  mutable strings : int;
  mutable checksum : int; (* of the current period *)
  mutable words_before : int; (* words before the current period *)
}

let all_counts = ref []
let all_lock = Mutex.create ()

let new_counts () =
  let counts = { pairs = 0; arrays = 0; strings = 0; checksum = 0; words_before = 0 } in
  Mutex.protect all_lock (fun () -> all_counts := counts :: !all_counts);
  counts

let stop = Atomic.make false
let at_rest = Atomic.make false
let calm = Atomic.make false
let rounds_between_rests = 20

(* Called after every rounds_between_rests rounds. *)
let rest_when_calm () = if Atomic.get calm then Unix.sleepf 0.01
let use counts n = counts.checksum <- ((counts.checksum * 31) + n) land 0xffffff

(* The distinct checksums. *)
let checksums = ref []

let end_period counts =
  let words = counts.pairs + counts.arrays + counts.strings in
  let checksum = Hashtbl.hash (counts.checksum, words - counts.words_before) in
  counts.checksum <- 0;
  counts.words_before <- words;
  Mutex.protect all_lock (fun () ->
      if not (List.mem checksum !checksums) then checksums := checksum :: !checksums)

let[@inline never] site_pair counts i =
  counts.pairs <- counts.pairs + 3;
  Sys.opaque_identity (i, counts)

let[@inline never] site_array counts i =
  counts.arrays <- counts.arrays + 301;
  Sys.opaque_identity (Array.make 300 i)

let[@inline never] site_string counts i =
  let words = 1 + (i land 15) in
  counts.strings <- counts.strings + words + 2; (* the last word is padding *)
  Sys.opaque_identity (Bytes.create (8 * words))

(* ------------------------------------------------------------ shapes of stacks *)

let[@inline never] rec deep counts n =
  if n = 0 then fst (site_pair counts n) else 1 + deep counts (n - 1)

type _ Effect.t += Ask : int -> int Effect.t

(* Allocates in nested fibers, before an effect and after they are continued. *)
let[@inline never] rec in_fibers counts depth i =
  let open Effect.Deep in
  match_with
    (fun () ->
      let inner = if depth = 0 then deep counts 20 else in_fibers counts (depth - 1) i in
      let answer = Effect.perform (Ask i) in
      use counts (Array.length (site_array counts answer));
      inner + answer)
    ()
    {
      retc = Fun.id;
      exnc = raise;
      effc =
        (fun (type a) (eff : a Effect.t) ->
          match eff with
          | Ask n ->
              Some
                (fun (k : (a, _) continuation) ->
                  use counts (Bytes.length (site_string counts n));
                  continue k (n + 1))
          | _ -> None);
    }

exception Unwind of int

let[@inline never] rec raising counts n =
  use counts (fst (site_pair counts n));
  if n = 0 then raise (Unwind 3) else 1 + raising counts (n - 1)

let marshalled =
  Marshal.to_string (List.init 200 (fun i -> (i, string_of_int i, float_of_int i))) []

let round counts i =
  use counts (deep counts (i mod 300));
  use counts (in_fibers counts 2 i);
  (try use counts (raising counts 30) with Unwind n -> use counts n);
  use counts (List.length (List.sort compare (List.init 50 (fun k -> fst (site_pair counts (k * 7 mod 50))))));
  if i mod 50 = 0 then use counts (List.length (Marshal.from_string marshalled 0 : (int * string * float) list))

(* ------------------------------------------------------------ domains *)

let period = 1_200 (* least common multiple of 300, 16 and 50, after which parts of a round repeat *)

let work () =
  let counts = new_counts () in
  let i = ref 0 in
  while not (Atomic.get stop) do
    if Atomic.get at_rest then Unix.sleepf 0.01
    else begin
      round counts !i;
      i := (!i + 1) mod period;
      if !i = 0 then end_period counts;
      if !i mod rounds_between_rests = 0 then rest_when_calm ()
    end
  done

(* A domain with two threads. *)
let with_thread () =
  let other = Thread.create work () in
  work ();
  Thread.join other

let spawn_short_lived () =
  while not (Atomic.get stop) do
    if Atomic.get at_rest then Unix.sleepf 0.01
    else begin
      Domain.join (Domain.spawn (fun () ->
          let counts = new_counts () in
          for i = 1 to rounds_between_rests do round counts i done));
      rest_when_calm ()
    end
  done

(* Blocks that outlive the domains that allocated them. *)
let kept = ref []

let[@inline never] site_kept i = Array.make 300 i

let keep n =
  let allocate () = List.init n site_kept in
  let domains = List.init 4 (fun _ -> Domain.spawn allocate) in
  kept := List.map Domain.join domains @ !kept

let lock = Mutex.create ()
let wake = Condition.create ()

let words_before_waiting = 4_000_000 (* at no site that is counted *)
let waits = Atomic.make false

let blocked () =
  for i = 1 to words_before_waiting / 4 do
    ignore (Sys.opaque_identity (i, i, i))
  done;
  Mutex.lock lock;
  Atomic.set waits true;
  while not (Atomic.get stop) do Condition.wait wake lock done;
  Mutex.unlock lock;
  round (new_counts ()) 1

let in_read input () =
  ignore (Unix.read input (Bytes.create 1) 0 1);
  round (new_counts ()) 1

let print_counts () =
  let all = Mutex.protect all_lock (fun () -> !all_counts) in
  let sum f = List.fold_left (fun total counts -> total + f counts) 0 all in
  let site name words = Printf.sprintf "\"%s\":{\"allocated_words\":%d}" name words in
  Printf.printf "{\"sites\":{%s,%s,%s},\"checksums\":[%s]}\n%!"
    (site "site_pair" (sum (fun c -> c.pairs)))
    (site "site_array" (sum (fun c -> c.arrays)))
    (site "site_string" (sum (fun c -> c.strings)))
    (String.concat "," (List.map string_of_int (Mutex.protect all_lock (fun () -> !checksums))))

let rec serve () =
  match Handshake.command () with
  | [ "stat" ] -> print_counts (); serve ()
  | [ "keep"; n ] -> keep (int_of_string n); print_counts (); serve ()
  | [ "drop" ] -> kept := []; print_counts (); serve ()
  | [ "rest" ] -> Atomic.set at_rest true; print_counts (); serve ()
  | [ "work" ] -> Atomic.set at_rest false; print_counts (); serve ()
  | [ "calm" ] -> Atomic.set calm true; print_counts (); serve ()
  | [ "full" ] -> Gc.full_major (); print_counts (); serve ()
  | [ "exit" ] -> ()
  | words -> Printf.printf "unknown command: %s\n%!" (String.concat " " words); serve ()

let () =
  let input, output = Unix.pipe () in
  let domains =
    List.init workers (fun i -> Domain.spawn (if i = 0 then with_thread else work))
    @ [ Domain.spawn spawn_short_lived ]
    @ if idle = 0 then [] else [ Domain.spawn blocked; Domain.spawn (in_read input) ]
  in
  while idle <> 0 && not (Atomic.get waits) do Unix.sleepf 0.001 done;
  Handshake.ready ();
  if seconds > 0 then Unix.sleepf (float_of_int seconds) else serve ();
  Atomic.set stop true;
  ignore (Unix.write output (Bytes.make 1 'x') 0 1);
  Mutex.protect lock (fun () -> Condition.broadcast wake);
  List.iter Domain.join domains;
  print_counts ()
