//! Accuracy of near-duplicate detection: pairs of realistic texts, labelled by hand, each with the cosine of their
//! embeddings by the default model.

use engine::ItemDraft;
use half::f16;
use serde_json::Value;

use super::{House, ids, item, name, note};

/// A cosine and two texts with the same meaning.
const SAME: [(f32, &str, &str); 16] = [
    (0.989, "We chose paraffin for the lamp.", "we chose  PARAFFIN for the lamp"),
    (
        0.951,
        "The deploy key is rotated every 90 days.",
        "- The deploy key is rotated every 90 days",
    ),
    (0.973, "Herons don't nest on the pier.", "Herons do not nest on the pier."),
    (
        1.000,
        "Invoices are sent on the first working day of the month, approved by the head of finance, \
         and filed in the archive under the name of the customer.",
        "Invoices are sent on the first working day of the month,\napproved by the head of finance,\n\
         and filed in the archive under the name of the customer.\n",
    ),
    (
        0.997,
        "To restore the mail store, stop the queue, copy the newest snapshot back, start the queue \
         again and watch the log until the backlog is gone; tell the desk when it is done.",
        "To restore the mail store, stop the queue, copy the newest snapshot back, start the queue \
         again and watch the log until the backlog is gone; tell the desk when it is done. Thanks.",
    ),
    (
        0.969,
        "The ferry to the skerries leaves from the stone pier at the end of the harbour road, takes \
         bicycles but no cars, and does not sail when the wind is above gale force.",
        "The ferry to the skerries leaves from the stone pier at the end of the Harbour Road, takes \
         bicycles but no cars and does not sail when the wind is above gale force!",
    ),
    (
        0.995,
        "Compost is turned in spring and autumn, covered with straw when frost is near, and brought \
         out to the beds once it crumbles and smells of the forest floor.",
        "Compost is turned in spring and autumn, covered with straw when frost is near, and brought \
         out to the beds once it crumbles and it smells of the forest floor.",
    ),
    (
        0.994,
        "The choir recieves its scores by post, copies them for each voice, and returns the originals \
         within three weeks so that the next choir can have them.",
        "The choir receives its scores by post, copies them for each voice, and returns the originals \
         within three weeks so that the next choir can have them.",
    ),
    (
        0.971,
        "The colour of the hull is chosen by the owner of the boat, noted in the register of the \
         harbour, and painted again whenever the harbour master asks for it.",
        "The color of the hull is chosen by the owner of the boat, noted in the register of the \
         harbor, and painted again whenever the harbor master asks for it.",
    ),
    (
        0.988,
        "Every pull request needs a review by somebody of another team, a green pipeline, and a line \
         in the changelog that says what users will notice.",
        "Each pull request needs a review by somebody of another team, a green pipeline, and a line \
         in the changelog which says what users will notice.",
    ),
    (
        0.956,
        "The bakery closes in August. Sourdough is fed each evening, and loaves that are left go to \
         the shelter near the station.",
        "Sourdough is fed each evening, and loaves that are left go to the shelter near the station. \
         The bakery closes in August.",
    ),
    (
        0.996,
        "Patients fast for 12 hours before the blood test, drink water only, and bring the letter of \
         their doctor and the card of their insurance.",
        "Patients fast for twelve hours before the blood test, drink water only, and bring the letter \
         of their doctor and the card of their insurance.",
    ),
    (
        0.952,
        "# Lost keys\nWho finds a key brings it to the porter, who writes into the red book where it \
         was found and keeps it in the safe until somebody describes it.",
        "Lost keys\n\nWho finds a key brings it to the porter, who writes into the red book where it \
         was found and keeps it in the safe until somebody describes it.",
    ),
    (
        0.996,
        "The crane may lift \u{201c}two tons\u{201d} at most; its operator\u{2019}s licence is checked each year, \
         and its ropes are looked over whenever a storm has passed.",
        "The crane may lift \"two tons\" at most; its operator's licence is checked each year, and its \
         ropes are looked over whenever a storm has passed.",
    ),
    (
        0.992,
        "Seeds are kept dry and cool in paper bags, labelled with plant and year, and tried on wet \
         cloth before they are sown.",
        "Seeds are kept dry and cool inside paper bags, labelled with plant and year, and tried on \
         wet cloth before they get sown.",
    ),
    (
        0.970,
        "Guests of the hut carry their rubbish down to the valley, pay into the iron box at the door, \
         and leave dry wood beside the stove for whoever comes next.",
        "Please note: guests of the hut carry their rubbish down to the valley, pay into the iron box \
         at the door, and leave dry wood beside the stove for whoever comes next.",
    ),
];

/// A cosine and two similar texts with different meanings.
const ANOTHER: [(f32, &str, &str); 24] = [
    (0.945, "The lamp is wound every nineteen minutes.", "The lamp is wound every ninety minutes."),
    (0.904, "The north gate is open.", "The north gate is closed."),
    (0.633, "Alice leads the survey of the reef.", "Brendan leads the survey of the reef."),
    (
        0.989,
        "Tokens of the gateway are valid for 15 minutes, are signed by the key of the region, and \
         cannot be renewed once the session is over.",
        "Tokens of the gateway are valid for 60 minutes, are signed by the key of the region, and \
         cannot be renewed once the session is over.",
    ),
    (
        0.994,
        "The pump must be primed before it is switched on, or the seal runs dry and has to be \
         replaced by the workshop at the cost of a day.",
        "The pump must be primed after it is switched on, or the seal runs dry and has to be \
         replaced by the workshop at the cost of a day.",
    ),
    (
        0.967,
        "Backups of the billing database are encrypted on the remote disk and tried by a restore on \
         the first Sunday of each month.",
        "Backups of the billing database are not encrypted on the remote disk and tried by a restore \
         on the first Sunday of each month.",
    ),
    (
        0.885,
        "The archive keeps letters of the Aurora, her log, her crew list and the bills of her repair, \
         in boxes of grey board on the shelf beside the window; who wants to see them asks at the desk, \
         wears gloves, and gives them back before the bell is rung.",
        "The archive keeps letters of the Borealis, her log, her crew list and the bills of her repair, \
         in boxes of grey board on the shelf beside the window; who wants to see them asks at the desk, \
         wears gloves, and gives them back before the bell is rung.",
    ),
    (
        0.983,
        "Uploads to the media bucket may have 20 MB at most, are looked at by the scanner, and are \
         deleted when nobody has asked for them in a year.",
        "Uploads to the media bucket may have 20 GB at most, are looked at by the scanner, and are \
         deleted when nobody has asked for them in a year.",
    ),
    (
        0.991,
        "The cache of the resolver is kept for 10 minutes unless the record says otherwise, and a miss \
         is asked of the two servers of the provider in turn.",
        "The cache of the resolver is kept for 10 hours unless the record says otherwise, and a miss \
         is asked of the two servers of the provider in turn.",
    ),
    (
        0.986,
        "The limit is set by max_rows in the settings of the store, is read when the service starts, \
         and is told by the status page together with its origin.",
        "The limit is set by min_rows in the settings of the store, is read when the service starts, \
         and is told by the status page together with its origin.",
    ),
    (
        0.982,
        "The dose is to be increased by the nurse when the fever is high and the patient has eaten, \
         and noted on the sheet at the foot of the bed: increase it slowly.",
        "The dose is to be increased by the nurse when the fever is high and the patient has eaten, \
         and noted on the sheet at the foot of the bed: decrease it slowly.",
    ),
    (
        0.962,
        "Clients should retry a request that was answered with a status of overload, with a pause \
         that grows and has some chance in it.",
        "Clients must retry a request that was answered with a status of overload, with a pause that \
         grows and has some chance in it.",
    ),
    (
        0.998,
        "The walk begins at the mill, follows the left bank of the river to the weir, crosses it by the \
         footbridge and comes back over the meadows.",
        "The walk begins at the mill, follows the right bank of the river to the weir, crosses it by \
         the footbridge and comes back over the meadows.",
    ),
    (
        0.962,
        "Telemetry of the desktop client is disabled unless the user agrees to it on the page that is \
         shown at the start, and can be looked at in the menu.",
        "Telemetry of the desktop client is enabled unless the user agrees to it on the page that is \
         shown at the start, and can be looked at in the menu.",
    ),
    (
        0.998,
        "The meeting about the new school is held in the town hall on Tuesday at seven in the evening, \
         and whoever lives in the parish may speak.",
        "The meeting about the new school is held in the town hall on Thursday at seven in the \
         evening, and whoever lives in the parish may speak.",
    ),
    (
        0.791,
        "Bees are fed with sugar water in autumn when the ivy is over.",
        "Ants are fed with sugar water in autumn when the ivy is over.",
    ),
    (
        0.569,
        "The lift is looked over by Kone each year.",
        "The lift is looked over by Otis each year.",
    ),
    (
        0.951,
        "The oak in the yard was planted when the school was built, and its shade is where the classes \
         are photographed at the end of the year.",
        "Photographs of classes are taken at the end of the year in the yard, under the oak that was \
         planted when the school was built, for its shade.",
    ),
    (
        0.999,
        "The gateway talks to the store over one pool of connections, which is made when the \
         process starts and is never larger than the number that the settings say. A read times \
         out after 5 s, a write after 30 s, and whoever is on call is woken when either happens \
         more often than the budget of the week allows. Look at the panel of the pool first: if \
         it is full, find out which client holds connections without using them, and have its \
         owner restart it. If it is not full, look at the disk of the store, whose queue should \
         be short at any time of the day. When nothing helps, take the gateway out of the \
         balance, wait until its last request has been answered, start it again, and write down \
         what was seen in the diary of the team, with the hour and the name of the client that \
         suffered.",
        "The gateway talks to the store over one pool of connections, which is made when the \
         process starts and is never larger than the number that the settings say. A read times \
         out after 30 s, a write after 5 s, and whoever is on call is woken when either happens \
         more often than the budget of the week allows. Look at the panel of the pool first: if \
         it is full, find out which client holds connections without using them, and have its \
         owner restart it. If it is not full, look at the disk of the store, whose queue should \
         be short at any time of the day. When nothing helps, take the gateway out of the \
         balance, wait until its last request has been answered, start it again, and write down \
         what was seen in the diary of the team, with the hour and the name of the client that \
         suffered.",
    ),
    (
        0.966,
        "In the cellar of the abbey the cheese is washed with salt water each day until its rind \
         is firm. Apples are kept at 3 degrees on racks of beech, pears at 8 degrees, and both \
         are turned by hand whenever the bell of the hour of noon has rung; what has spots is \
         taken out, cut, and cooked for the guests of the house before it spoils. The door is \
         shut behind whoever goes in, since mice come up from the mill when the nights grow \
         cold. In the week before Easter all shelves are emptied, scrubbed with soda and dried \
         in the wind of the court, the walls are whitened, and the novices count what is left \
         and write it into the book that lies in the kitchen beside the great hearth.",
        "In the cellar of the abbey the cheese is washed with salt water each day until its rind \
         is firm. Pears are kept at 3 degrees on racks of beech, apples at 8 degrees, and both \
         are turned by hand whenever the bell of the hour of noon has rung; what has spots is \
         taken out, cut, and cooked for the guests of the house before it spoils. The door is \
         shut behind whoever goes in, since mice come up from the mill when the nights grow \
         cold. In the week before Easter all shelves are emptied, scrubbed with soda and dried \
         in the wind of the court, the walls are whitened, and the novices count what is left \
         and write it into the book that lies in the kitchen beside the great hearth.",
    ),
    (0.989, "Alice reports to Bob.", "Bob reports to Alice."),
    (
        0.997,
        "The ferry of the morning goes from the stone pier to the mill, waits there until the \
         post has come, and carries whoever has a ticket of the parish; dogs stay on deck.",
        "The ferry of the morning goes from the mill to the stone pier, waits there until the \
         post has come, and carries whoever has a ticket of the parish; dogs stay on deck.",
    ),
    (
        0.999,
        "The vault has two keys, and neither opens it without the other. The first key, which is \
         of brass, is kept by Ingrid. The second key, which is of steel, is kept by Tomas. \
         Whoever needs both asks the bailiff and signs the book.",
        "The vault has two keys, and neither opens it without the other. The first key, which is \
         of brass, is kept by Tomas. The second key, which is of steel, is kept by Ingrid. \
         Whoever needs both asks the bailiff and signs the book.",
    ),
    (
        0.993,
        "There are two shelves for letters. The upper one is for the town. It is emptied by the \
         clerk of Lund each day. The lower one is for the coast. It is emptied by the clerk of \
         Visby each day. Parcels go to the yard behind the house.",
        "There are two shelves for letters. The upper one is for the town. It is emptied by the \
         clerk of Visby each day. The lower one is for the coast. It is emptied by the clerk of \
         Lund each day. Parcels go to the yard behind the house.",
    ),
];

/// Two embeddings with this cosine.
fn at_angle(cosine: f32) -> [Vec<f16>; 2] {
    let beside = (1.0 - cosine * cosine).max(0.0).sqrt();
    let of = |first: f32, second: f32| {
        let mut all = vec![f16::ZERO; 16];
        (all[0], all[1]) = (f16::from_f32(first), f16::from_f32(second));
        all
    };
    [of(1.0, 0.0), of(cosine, beside)]
}

/// Returns true if an answer contains one item of the pair and names the other as its duplicate.
fn is_one(house: &House, at: u128, text: &str) -> bool {
    let question: String =
        text.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    let answer = house.ask(&question);
    let (one, other) = (2 * at + 1, 2 * at + 2);
    let given: Vec<u128> =
        ids(&answer).into_iter().filter(|id| [one, other].contains(id)).collect();
    match given[..] {
        [only] => {
            let hidden = Value::from(name(one + other - only));
            let duplicates = item(&answer, only)["duplicates"].as_array();
            assert!(duplicates.is_some_and(|them| them.contains(&hidden)), "{text}: {answer}");
            true
        }
        [_, _] => false,
        _ => panic!("{text}: neither is in {answer}"),
    }
}

#[test]
fn what_says_the_same_is_told_from_what_is_merely_alike() {
    let house = House::new();
    let pairs: Vec<_> = SAME.iter().chain(&ANOTHER).collect();
    for (at, (cosine, one, other)) in (0..).zip(&pairs) {
        let [first, second] = at_angle(*cosine);
        let of = |id, text: &str, embedding| ItemDraft { embedding, ..note(id, text) };
        house.write(vec![of(2 * at + 1, one, first), of(2 * at + 2, other, second)]);
    }
    let found: Vec<bool> =
        (0..).zip(&pairs).map(|(at, (_, one, _))| is_one(&house, at, one)).collect();
    let of = |pairs: &[(f32, &'static str, &'static str)], found: &[bool], wanted: bool| {
        let wrong = pairs.iter().zip(found).filter(|(_, found)| **found != wanted);
        wrong.map(|((_, one, _), _)| *one).collect::<Vec<_>>()
    };
    let (same, another) = found.split_at(SAME.len());
    let made_up = of(&ANOTHER, another, false);
    assert!(made_up.is_empty(), "{made_up:#?}");
    let missed = of(&SAME, same, true);
    assert!(missed.len() * 8 <= SAME.len(), "{missed:#?}");
}
