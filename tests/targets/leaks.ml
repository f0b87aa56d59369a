(* SPDX-License-Identifier: Apache-2.0 *)
(* leaks KIND: a server under load that leaks in one way, or not at all.

   cache      a table of pages without eviction
   timeouts   a table keeps requests whose backend does not answer
   buffer     an audit log that is never flushed
   promises   each turn waits for a promise that is never fulfilled
   threads    threads that never end
   spread     sixteen parsers, each of which keeps a little
   healthy    a cache with eviction, a ring, a table that is emptied, short-lived buffers

   Functions end in (), so that they make no tail calls and appear in callstacks. *)

module Catalog = struct
  let pages : (int, string) Hashtbl.t = Hashtbl.create 16
  let[@inline never] page n =
    Hashtbl.replace pages n (Bytes.to_string (Bytes.make 8192 'p'));
    ()
  let[@inline never] cached_page n =
    if Hashtbl.length pages >= 200 then Hashtbl.remove pages (n - 200);
    page n
end

module Sessions = struct
  let pending : (int, string * float) Hashtbl.t = Hashtbl.create 16
  let[@inline never] create n =
    Hashtbl.replace pending n (String.make 6000 's', float_of_int n);
    ()
  (* Every second request is never answered. *)
  let[@inline never] answered ~leak n = if (not leak) || n land 1 = 0 then Hashtbl.remove pending n
end

module Audit = struct
  let buffer = Buffer.create 16
  let[@inline never] log line =
    Buffer.add_string buffer line;
    ()
end

(* Like Lwt: waiting for several promises leaves a callback with each of them. *)
module Promise = struct
  type 'a t = { mutable value : 'a option; mutable waiters : ('a -> unit) list }

  let never () = { value = None; waiters = [] }
  let[@inline never] on promise callback = promise.waiters <- callback :: promise.waiters
  let[@inline never] choose promises callback =
    List.iter (fun promise -> if promise.value = None then on promise callback) promises
end

module Poll = struct
  let stop : int Promise.t = Promise.never ()
  let[@inline never] turn n =
    let job = Promise.never () in
    let state = Array.make 700 n in
    Promise.choose [ stop; job ] (fun k -> state.(0) <- k)
end

module Watch = struct
  let lock = Mutex.create ()
  let never = Condition.create ()
  let waiting = ref 0
  let[@inline never] rec use k = if k = 0 then 0 else 1 + use (k - 1)
  let[@inline never] watch domain =
    ignore (use 8_000);
    let events = Array.make 16_000 domain in
    Mutex.lock lock;
    incr waiting;
    (* Code after an obviously infinite loop would not keep events alive. *)
    while !waiting > 0 do Condition.wait never lock done;
    ignore (Sys.opaque_identity events)
  let[@inline never] start n = ignore (Thread.create watch n)
end

module Parsers = struct
  let kept : string list ref = ref []
  (* Each line is a separate site. *)
  let[@inline never] parse n =
    match n land 15 with
    | 0 -> kept := String.make 90 'p' :: !kept
    | 1 -> kept := String.make 100 'p' :: !kept
    | 2 -> kept := String.make 110 'p' :: !kept
    | 3 -> kept := String.make 120 'p' :: !kept
    | 4 -> kept := String.make 130 'p' :: !kept
    | 5 -> kept := String.make 140 'p' :: !kept
    | 6 -> kept := String.make 150 'p' :: !kept
    | 7 -> kept := String.make 160 'p' :: !kept
    | 8 -> kept := String.make 170 'p' :: !kept
    | 9 -> kept := String.make 180 'p' :: !kept
    | 10 -> kept := String.make 190 'p' :: !kept
    | 11 -> kept := String.make 200 'p' :: !kept
    | 12 -> kept := String.make 210 'p' :: !kept
    | 13 -> kept := String.make 220 'p' :: !kept
    | 14 -> kept := String.make 230 'p' :: !kept
    | 15 -> kept := String.make 240 'p' :: !kept
    | _ -> ()
end

module Work = struct
  let ring = Array.make 512 ""
  (* Every request allocates this and drops it, so that the collector has work. *)
  let[@inline never] handle n =
    for i = 1 to 40 do
      ring.(((n * 40) + i) land 511) <- String.make (2000 + (i * 50)) 'w'
    done;
    let answer = Buffer.create 64 in
    for i = 1 to 200 do Buffer.add_string answer (string_of_int (n * i)) done;
    Sys.opaque_identity (Buffer.length answer)
end

let serve kind n =
  ignore (Work.handle n);
  match kind with
  | "cache" -> Catalog.page n
  | "timeouts" ->
      Sessions.create n;
      Sessions.answered ~leak:true n
  | "buffer" -> Audit.log (String.make 4000 'a')
  | "promises" -> Poll.turn n
  | "threads" -> if n mod 50 = 0 && n < 60_000 then Watch.start n
  | "spread" -> for i = 1 to 20 do Parsers.parse ((n * 20) + i) done
  | "healthy" ->
      Catalog.cached_page n;
      Sessions.create n;
      Sessions.answered ~leak:false n;
      if n mod 300 = 0 then Buffer.reset Audit.buffer;
      Audit.log (String.make 100 'a')
  | _ -> failwith "leaks KIND"

let () =
  let kind = if Array.length Sys.argv > 1 then Sys.argv.(1) else "healthy" in
  serve kind 0;
  Handshake.ready ();
  let n = ref 0 in
  while !n mod 100 <> 0 || Handshake.poll_command () <> Some [ "exit" ] do
    incr n;
    serve kind !n;
    Unix.sleepf 0.002
  done
