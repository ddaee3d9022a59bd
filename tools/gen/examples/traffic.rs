//! Packets per second that one core generates and checks: templates, tags, checksums and meter, without any port.

use generator::meter::Meter;
use generator::schedule::Pace;
use generator::tag::TAG;
use generator::{Description, Sizes, Source};
use mem::copy::chosen;
use port::GeneratedBurst;
use std::error::Error;
use std::time::{Duration, Instant};

const LENGTH: Duration = Duration::from_millis(500);
const KEY: u32 = 1;

/// Rate in Mpps at which packets are generated, and also checked if `checked`.
fn mpps(stream: &Description, checked: bool) -> Result<f64, Box<dyn Error>> {
    let plan = stream.plan()?;
    let mut source = Source::new(vec![(plan, None)], Pace::Constant, 0, 64, KEY)?;
    let (mut burst, mut meter, mut made) = (GeneratedBurst::new(), Meter::new(1, KEY), 0);
    let began = Instant::now();
    while began.elapsed() < LENGTH {
        mem::with_kernel!(chosen(), K => {
            source.fill::<K>(&mut burst, made);
            for i in (0..burst.len()).filter(|_| checked) {
                let tail = burst.frame(i).tail::<K, TAG>();
                meter.take(tail.as_ref(), burst.frame_len(i), made + 100);
            }
        });
        source.accepted(0, burst.len());
        made += burst.len() as u64;
    }
    if checked && meter.received() != made {
        return Err(format!("{} of {made} packets were not known again", made - meter.received()).into());
    }
    Ok(made as f64 / began.elapsed().as_secs_f64() / 1e6)
}

fn main() -> Result<(), Box<dyn Error>> {
    generator::rig::settle();
    println!("size   flows  made Mpps  made and checked Mpps");
    for (size, flows) in [(60, 1), (64, 1), (64, 1000), (512, 1000), (1514, 1000)] {
        let stream = Description { size: Sizes::Fixed(size), flows, ..Description::default() };
        println!("{size:4} {flows:7} {:10.2} {:22.2}", mpps(&stream, false)?, mpps(&stream, true)?);
    }
    Ok(())
}
