//! Writes of a leader: steps, full records of several kinds, erasures and releases.

use std::time::Duration;

use recalld_replication::core::{Committed, Holder, Port, Stamp, may_resume};
use recalld_replication::{DataKey, Full, Hex, Key, Kind};

use super::node::{Node, apply};
use super::toy::{NotApplied, line, upload};
use super::world::Ground;

/// Error: the epoch is over.
struct Over;

/// A leader's writer, with its environment.
struct Writing<'a> {
    port: &'a Port,
    ground: &'a Ground,
    node: &'a Node,
    holder: Holder,
    is_over: bool,
}

pub(crate) fn stamp(ground: &Ground, node: &Node) -> Stamp {
    let nonce = Hex(ground.dice.borrow_mut().bytes());
    Stamp { at: node.date(ground.history.borrow().now), nonce }
}

/// Writes until the epoch is over.
pub(crate) async fn hold(port: &Port, ground: &Ground, node: &Node, holder: Box<Holder>) {
    let mut writing = Writing { port, ground, node, holder: *holder, is_over: false };
    if writing.resume().await.is_err() {
        return;
    }
    while writing.act().await.is_ok() {
        let pause = if ground.chance(0.02) && !ground.is_quiet.get() {
            ground.within(30.0, 90.0)
        } else {
            ground.within(0.2, 6.0)
        };
        port.wait(pause).await;
    }
}

impl Writing<'_> {
    async fn act(&mut self) -> Result<(), Over> {
        if self.is_over {
            return Err(Over);
        }
        let is_quiet = self.ground.is_quiet.get();
        if self.holder.wants_full() || self.ground.chance(0.15) {
            let is_fold = self.ground.chance(0.4);
            return self.full(is_fold).await;
        }
        if self.ground.chance(0.04) {
            return self.erase().await;
        }
        let names: &[&str] = match is_quiet {
            false => &["", "", "n1", "n2", "n9"],
            // After the faults: one release, to an absent node. The other checks that depend on time need a leader that
            // stays.
            true if self.node.exact.get() && self.ground.history.borrow().may_be_given() => &["n9"],
            true => &[],
        };
        if !names.is_empty() && self.ground.chance(0.02) {
            return self.give(names, is_quiet).await;
        }
        self.write().await
    }

    fn key(&self) -> DataKey {
        let nonce = Hex(self.ground.dice.borrow_mut().bytes());
        let key = DataKey { epoch: self.holder.epoch(), nonce };
        self.node.live.borrow().borrow_mut().insert(key);
        key
    }

    /// Uploads an object; a failed upload is abandoned.
    async fn put(&self, bytes: Vec<u8>) -> Option<DataKey> {
        let key = self.key();
        self.put_as(key, bytes).await.then_some(key)
    }

    async fn put_as(&self, key: DataKey, bytes: Vec<u8>) -> bool {
        let is_there = upload(self.port, key, bytes).await.is_ok();
        if is_there && self.ground.chance(0.1) && !self.ground.is_quiet.get() {
            self.port.wait(self.ground.within(1.0, 40.0)).await;
        }
        if !is_there {
            self.gives_up(&[key]);
        }
        is_there
    }

    fn gives_up(&self, keys: &[DataKey]) {
        let live = self.node.live.borrow();
        live.borrow_mut().retain(|key| !keys.contains(key));
    }

    async fn write(&mut self) -> Result<(), Over> {
        let token = self.ground.history.borrow_mut().token();
        let line = line(token, false);
        let object = if self.ground.chance(0.1) { self.put(line.clone()).await } else { None };
        if let Some(key) = object {
            let epoch = self.holder.epoch();
            self.node.disk.borrow_mut().carried = Some((epoch, token, key));
            // The process may end in between, or close the store and acquire the workspace anew.
            if self.ground.chance(0.3) && !self.ground.is_quiet.get() {
                self.port.wait(self.ground.within(1.0, 20.0)).await;
            }
            if self.ground.chance(0.2) && !self.ground.is_quiet.get() {
                return Err(Over);
            }
        }
        self.write_as(token, object).await
    }

    async fn write_as(&mut self, token: u64, object: Option<DataKey>) -> Result<(), Over> {
        let kind = self.node.disk.borrow().toy.step(&line(token, false), object);
        let is_done = self.commit(kind).await?;
        self.node.disk.borrow_mut().carried = None;
        if is_done {
            self.ground.history.borrow_mut().acknowledge(token);
        } else {
            self.gives_up(object.as_slice());
            self.ground.history.borrow_mut().refuse(token);
        }
        Ok(())
    }

    /// Adopts an upload of the previous epoch that no record names, if no other epoch came between.
    async fn resume(&mut self) -> Result<(), Over> {
        let Some((epoch, token, key)) = self.node.disk.borrow_mut().carried.take() else {
            return Ok(());
        };
        let line = line(token, false);
        if !may_resume(epoch, self.holder.epoch()) || self.node.disk.borrow().toy.has(token) {
            return Ok(());
        }
        self.node.live.borrow().borrow_mut().insert(key);
        self.node.disk.borrow_mut().carried = Some((self.holder.epoch(), token, key));
        let far = Key::Data(self.port.tenant().clone(), key, 0);
        match self.port.get(far, None, 1 << 20).await {
            Ok(Some(bytes)) if bytes == line => {
                self.ground.history.borrow_mut().counts.resumed += 1;
                self.write_as(token, Some(key)).await
            }
            _ => {
                self.node.disk.borrow_mut().carried = None;
                self.gives_up(&[key]);
                Ok(())
            }
        }
    }

    async fn full(&mut self, is_fold: bool) -> Result<(), Over> {
        let key = self.key();
        let (bytes, full) = {
            let toy = &self.node.disk.borrow().toy;
            let is_whole = self.ground.chance(0.4);
            if is_fold { toy.folded(key) } else { toy.sealed(key, is_whole) }
        };
        self.commit_full(key, bytes, full).await.map(|_| ())
    }

    async fn commit_full(
        &mut self,
        key: DataKey,
        bytes: Vec<u8>,
        full: Full,
    ) -> Result<bool, Over> {
        if !self.put_as(key, bytes).await {
            return Ok(false);
        }
        let is_done = self.commit(Kind::Full(full)).await?;
        if !is_done {
            self.gives_up(&[key]);
        }
        Ok(is_done)
    }

    /// Erases a token: writes a line that marks the erasure, then a full record of the rest, before which all history
    /// is removed.
    async fn erase(&mut self) -> Result<(), Over> {
        let shown = self.node.disk.borrow_mut().shown();
        let Some(token) = self.ground.history.borrow().erasable(&shown.tokens) else {
            return Ok(());
        };
        self.ground.history.borrow_mut().dooms(token);
        let kind = self.node.disk.borrow().toy.step(&line(token, true), None);
        if !self.commit(kind).await? {
            return Ok(());
        }
        let erasure = self.ground.history.borrow_mut().begins_erasure(token);
        let key = self.key();
        let (bytes, mut full) = self.node.disk.borrow().toy.sealed(key, true);
        full.erased = self.holder.newest().head.number;
        if self.commit_full(key, bytes, full).await? {
            let number = self.holder.newest().head.number;
            self.ground.history.borrow_mut().erased(erasure, number);
        }
        Ok(())
    }

    async fn give(&mut self, names: &[&str], is_timed: bool) -> Result<(), Over> {
        let to = self.ground.dice.borrow_mut().pick(names);
        let to = recalld_replication::NodeId::new(to).ok();
        // Other nodes may acquire the workspace as soon as the record is stored, even before this node receives the
        // response.
        self.node.known.set(None);
        if self.commit(Kind::Give { to }).await? && is_timed {
            self.ground.history.borrow_mut().gives();
        }
        Err(Over)
    }

    /// Commits a record. Returns true if the record is in the log, false if it was rejected and no trace of it exists.
    async fn commit(&mut self, kind: Kind) -> Result<bool, Over> {
        let seq = self.holder.newest().head.seq + 1;
        let stamp = stamp(self.ground, self.node);
        let record = recalld_replication::Record {
            head: self.holder.newest().head.clone(),
            kind: kind.clone(),
        };
        let mut committed = self.holder.commit(self.port, kind, seq, stamp).await;
        loop {
            match committed {
                Committed::Done(noted) => {
                    self.show(noted, record).await;
                    return Ok(true);
                }
                Committed::Refused(_) => return Ok(false),
                Committed::Unsure(_) => {
                    self.ground.history.borrow_mut().counts.unsure += 1;
                    if self.ground.chance(0.2) {
                        // The writer closes the store and acquires the workspace anew.
                        return Err(Over);
                    }
                    committed = self.holder.settle(self.port).await;
                }
                Committed::Given => return Err(Over),
                Committed::Fenced(_) => {
                    let (number, epoch) =
                        (self.holder.newest().head.number + 1, self.holder.epoch());
                    let edge = self.ground.store.state().edge(&self.ground.tenant);
                    self.ground.history.borrow_mut().halts(number, epoch, &edge);
                    return Err(Over);
                }
                Committed::Wrong(_) | Committed::FullFirst => {
                    self.ground.wrong(format!("{} makes {committed:?}", self.node.name));
                    return Err(Over);
                }
            }
        }
    }

    /// Applies a committed record to the local store, from the writer's bytes.
    async fn show(
        &mut self,
        noted: recalld_replication::core::Noted,
        record: recalld_replication::Record,
    ) {
        self.node.noted.borrow_mut().push(noted);
        loop {
            match apply(self.port, self.node, std::slice::from_ref(&record)).await {
                Ok(()) => break,
                Err(NotApplied::Away) => self.port.wait(Duration::from_millis(100)).await,
                // A later leader has collected garbage.
                Err(NotApplied::Gone(_)) => return self.is_over = true,
                Err(NotApplied::Wrong(why)) => return self.ground.wrong(why),
            }
        }
        let newest = self.holder.newest().clone();
        self.ground.history.borrow_mut().saw(&newest, self.node.name.as_str());
        self.node.disk.borrow_mut().at = Some(newest);
        self.node.known.set(Some(self.holder.known()));
    }
}
