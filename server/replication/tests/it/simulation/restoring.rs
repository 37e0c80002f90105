//! Reader of history: pins a record, reads the store as of that record slowly, and removes the pin.

use std::rc::Rc;
use std::time::Duration;

use recalld_replication::Hex;
use recalld_replication::core::{Lost, Pin, Pinned, Port, pin, reach};

use super::node::Node;
use super::toy::{NotApplied, Toy};
use super::world::Ground;

const PIN_SECONDS: u64 = 600;

pub(crate) async fn restore(port: Rc<Port>, ground: Rc<Ground>, node: Rc<Node>) {
    loop {
        port.wait(ground.within(20.0, 200.0)).await;
        let newest = node.disk.borrow().at.as_ref().map_or(0, |at| at.head.number);
        if newest > 1 {
            let back = ground.dice.borrow_mut().below(newest.min(60));
            once(&port, &ground, &node, newest - back).await;
        }
    }
}

async fn once(port: &Port, ground: &Ground, node: &Node, number: u64) {
    let nonce = Hex(ground.dice.borrow_mut().bytes());
    let wanted = Pin { number, seconds: PIN_SECONDS };
    let begun = ground.history.borrow().now;
    let Pinned::Held(key) = pin(port, node.name.clone(), nonce, &wanted).await else { return };
    port.wait(ground.within(0.0, 100.0)).await;
    let is_read = read(port, number).await;
    let now = ground.history.borrow().now;
    // A pin lasts by the storage's clock, from the time at which it was written.
    let lives = now - begun < (PIN_SECONDS - 1) * 1_000_000_000;
    match is_read {
        Err(why) if lives && !is_erased(ground, number) => {
            ground.wrong(format!("C5: record {number}, which {} pinned: {why}", node.name));
        }
        Ok(true) => ground.history.borrow_mut().counts.restored += 1,
        _ => {}
    }
    while port.remove(vec![key.clone()]).await.is_err() {
        port.wait(Duration::from_secs(1)).await;
    }
}

fn is_erased(ground: &Ground, number: u64) -> bool {
    ground.store.state().edge(&ground.tenant).erased >= number
}

/// Reads the store as of a record. Returns false if the storage did not respond.
async fn read(port: &Port, number: u64) -> Result<bool, String> {
    let records = match reach(port, number).await {
        Ok(Some((_, records))) => records,
        Ok(None) => return Err("a record is gone".into()),
        Err(Lost::Away(_)) => return Ok(false),
        Err(Lost::Damage(damage)) => return Err(damage.to_string()),
    };
    let mut toy = Toy::default();
    for record in records {
        match toy.apply(port, &record).await {
            Ok(()) => {}
            Err(NotApplied::Away) => return Ok(false),
            Err(NotApplied::Gone(key)) => return Err(format!("{key} is gone")),
            Err(NotApplied::Wrong(why)) => return Err(why),
        }
    }
    Ok(true)
}
